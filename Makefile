# callonce. `make` alone prints what there is.

DIST := dist
GO   ?= go

.DEFAULT_GOAL := help

.PHONY: help
help: ## Print this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2} /^## / {print substr($$0, 4)}' $(MAKEFILE_LIST)

# Go names each module that it fetches, but not how many there are, and says nothing while it compiles. GOPROXY=off asks nobody.
.PHONY: fetched
fetched:
	@GOPROXY=off $(GO) list -deps ./plugin ./plugin/cmd/callonce ./hostsim/cmd/hostsim >/dev/null 2>&1 || echo "fetching modules, 20 MB, and then compiling them: a minute or two, once …"

# What make run and make demo need more.
.PHONY: fetched-more
fetched-more: build
	@GOPROXY=off $(GO) list -C e2e -deps ./cmd/run ./cmd/demo ./cmd/etcd >/dev/null 2>&1 || echo "fetching more modules, 40 MB, and then compiling them: a minute, once …"

.PHONY: build
ifeq ($(BINDING),sdk)
build: $(DIST)/callonce-sdk.wasm
else
build: $(DIST)/callonce.wasm $(DIST)/callonce $(DIST)/hostsim ## Build dist/callonce.wasm, dist/callonce and dist/hostsim; BINDING=sdk: dist/callonce-sdk.wasm, the filter on the Go SDK, which judges ours
endif

.PHONY: run
run: build fetched-more ## Serve the filter in front of UPSTREAM, under CONFIG (default: a payments server), and print what to try; STORE=etcd: two proxies over one etcd
	@$(GO) build -C e2e -o ../$(DIST)/run ./cmd/run
	@$(if $(filter etcd,$(STORE)),$(GO) build -C e2e -o ../$(DIST)/etcd ./cmd/etcd)
	@exec $(DIST)/run $(if $(CONFIG),-config $(CONFIG)) $(if $(filter etcd,$(STORE)),-etcd $(DIST)/etcd)

.PHONY: demo
demo: build fetched-more ## Play the scenarios of repeated calls, at one proxy and at two over one etcd, and count the charges at the server
	@$(GO) build -C e2e -o ../$(DIST)/demo ./cmd/demo
	@$(GO) build -C e2e -o ../$(DIST)/etcd ./cmd/etcd
	@exec $(DIST)/demo -etcd $(DIST)/etcd

# The modules of this repository: each is tidy by itself, and go mod tidy in one does not look into the others.
# Those of the meshes' programs are left to make mesh, and those of e2e/promtool, e2e/etcdctl and e2e/gojq to their build: tidying them takes a gigabyte of modules.
MODULES = $(filter-out mesh/% e2e/promtool e2e/etcdctl e2e/gojq,$(patsubst %/,%,$(dir $(shell git ls-files '*go.mod'))))
# Those that the checks of code go over; the others hold filters for tests, or nothing but what is compiled elsewhere.
CHECKED = . canonical/peers gate e2e mesh plugin/internal/etcd/realtest $(wildcard clients/go)

.PHONY: check
check: $(DIST)/tools ## Check what needs no run: tidy modules, format, vet, staticcheck, dead code, races, planted faults that apply, figures
	@for m in $(MODULES); do echo "tidy $$m"; (cd $$m && $(GO) mod tidy -diff) || exit 1; done
	@echo gofmt; out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "not formatted: $$out"; exit 1; }
	@for m in $(CHECKED); do echo "vet $$m"; $(GO) vet -C $$m ./... || exit 1; done
	@for t in none faults smalltable figures; do echo "vet the filter, -tags $$t"; GOOS=wasip1 GOARCH=wasm $(GO) vet -tags $$t ./plugin/... || exit 1; done
	@for m in hostsim/testdata/probe hostsim/testdata/seen plugin/sdk; do echo "vet $$m"; GOOS=wasip1 GOARCH=wasm $(GO) vet -C $$m . || exit 1; done
	@# The ABI is whole only where it is compiled for the host, and is checked there; who calls its functions deadcode knows better.
	@for m in $(CHECKED); do echo "staticcheck $$m"; (cd $$m && $(CURDIR)/$(DIST)/tools/staticcheck $$($(GO) list ./... | grep -v /internal/abi$$)) || exit 1; done
	@echo "staticcheck the filter"; GOOS=wasip1 GOARCH=wasm $(DIST)/tools/staticcheck -checks inherit,-U1000 ./plugin/...
	@echo "staticcheck plugin/sdk"; cd plugin/sdk && GOOS=wasip1 GOARCH=wasm $(CURDIR)/$(DIST)/tools/staticcheck .
	@echo "dead code"; $(DIST)/tools/deadcode
	@echo "planted faults"; $(DIST)/tools/mutants -check
	$(GO) test -C gate ./...
	$(GO) test -race -run 'Parallel' ./plugin/internal/ledger/shared
	$(GO) test -race ./plugin/internal/abi ./plugin/internal/scratch ./hostsim/hosttest
	$(GO) test -count=1 ./plugin/internal/figures

.PHONY: mutants
mutants: $(DIST)/tools ## Plant every fault of the lists (*/testdata/mutants.txt), and see each found; OF=folder for some, J=2 for two at a time (an hour and more)
	@$(DIST)/tools/mutants $(if $(OF),-of $(OF)) $(if $(J),-j $(J))

.PHONY: record
record: ## Record the size of the filter and what each kind of request costs, for make check to compare with
	$(GO) test -count=1 ./plugin/internal/figures -record

.PHONY: long
long: build ## Longer runs of the tests of the ledger, the explorer, the reader of JSON and the ledger in etcd (two hours and more)
	$(GO) test -count=1 -timeout 120m ./plugin/internal/ledger/shared -schedules 100000 -million
	$(GO) test -count=1 -timeout 120m ./plugin/conformance -run TestSlowSchedules -slow-schedules 10000
	$(GO) test -count=1 -timeout 120m ./hostsim/schedule -all
	CALLONCE_LONG_RUN=1 $(GO) test -count=1 -timeout 120m ./...
	CALLONCE_LONG_RUN=1 $(GO) test -C e2e -count=1 -timeout 120m -run 'TestEtcdRace|TestEtcdLeaderKilled|TestEtcdEnvoyKilled' .
	CALLONCE_SDK=1 $(GO) test -C e2e -count=1 -timeout 60m -run TestMoreOnTheSDK .

.PHONY: test
test: build ## Test everything that needs no Envoy
	$(GO) vet ./...
	$(GO) test -timeout 20m ./...
	$(GO) vet -C clients/go ./...
	$(GO) test -C clients/go ./...

.PHONY: e2e
e2e: build ## Test on a real Envoy, which is installed when there is none
	@# Go does not see that a file of another module has changed: nothing here is taken from its cache.
	$(GO) vet -C e2e ./...
	$(GO) vet -C plugin/internal/etcd/realtest ./...
	$(GO) test -C plugin/internal/etcd/realtest -count=1 ./...
	$(GO) vet -C image ./...
	$(GO) test -C image -count=1 ./...
	$(GO) vet -C e2e/schema ./...
	$(GO) test -C e2e/schema -count=1 ./...
	$(GO) vet -C e2e/manifests ./...
	$(GO) test -C e2e/manifests -count=1 ./...
	$(GO) test -C e2e -count=1 -timeout 70m ./...

# AGAINST=commit builds that commit and measures it in the same waves; WITH="name=file …" and BINDING=sdk other modules.
.PHONY: bench
bench: $(DIST)/callonce.wasm $(DIST)/hostsim $(if $(BINDING),$(DIST)/callonce-$(BINDING).wasm) ## Measure the cost on a real Envoy beside its peers, and the canonical form; OF=plots, start, ledger, hostsim, etcd and meshes measure those; AGAINST=commit compares with it; WRITE=1 keeps the figures in docs
	@$(GO) build -C e2e -o ../$(DIST)/bench ./cmd/bench
	@exec $(DIST)/bench $(if $(OF),-of $(OF)) $(if $(AGAINST),-against $(AGAINST)) $(foreach m,$(WITH),-module $(m)) $(if $(BINDING),-module $(BINDING)=$(DIST)/callonce-$(BINDING).wasm) $(if $(WRITE),-write)

# One Go release for all, so that whoever builds the same source gets the same digest.
.PHONY: image
image: ## Write dist/image, the filter as an OCI image for Istio and Envoy Gateway, and print its digest; IMAGE=registry/name:tag pushes it, VERSION names it
	@GOTOOLCHAIN=$$(cat image/go.version) $(GO) run -C image ./cmd/image $(if $(VERSION),-version $(VERSION)) $(if $(IMAGE),-push $(IMAGE))

.PHONY: release
release: ## Write dist/release for VERSION: module, image, commands, manifests, schema, SBOMs, checksums; wants a changelog entry and the tag
	@GOTOOLCHAIN=$$(cat image/go.version) $(GO) run -C image ./cmd/release -version "$(VERSION)"

.PHONY: mesh
mesh: ## Run the manifests on istiod, pilot-agent and Envoy Gateway themselves, which it builds once (half an hour); OF=pattern for some, RECORD=1 records their listeners anew, COST=8 measures calls in them, in so many rounds
	@for m in mesh/istio mesh/gateway; do echo "tidy $$m"; (cd $$m && $(GO) mod tidy -diff) || exit 1; done
	$(GO) vet -C mesh ./...
	$(GO) test -C mesh -count=1 -timeout 60m -v $(if $(OF),-run '$(OF)')$(if $(COST),-run Cost) . $(if $(RECORD),-record) $(if $(COST),-cost $(COST))

.PHONY: e2e-matrix
e2e-matrix: build ## Test on each Envoy that is supported, 1.36 to 1.40; OF=pattern for some tests, ON=1.37.0,1.39.3 for some versions
	@$(GO) build -C e2e -o ../$(DIST)/matrix ./cmd/matrix
	@exec $(DIST)/matrix $(if $(OF),-of '$(OF)') $(if $(ON),-on $(ON))

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(DIST)

# Go itself knows what is up to date, so all are always asked for.
.PHONY: $(DIST)/callonce.wasm $(DIST)/callonce-sdk.wasm $(DIST)/callonce $(DIST)/hostsim $(DIST)/tools
$(DIST)/callonce.wasm $(DIST)/callonce-sdk.wasm $(DIST)/callonce $(DIST)/hostsim: fetched
$(DIST)/tools:
	@mkdir -p $@
	@$(GO) build -C gate -o ../$@/ ./deadcode ./mutants tool

$(DIST)/callonce.wasm:
	@mkdir -p $(DIST)
	@if [ -e $@ ]; then echo "building $@"; else echo "building $@ (ten seconds; a minute on an empty cache)"; fi
	@GOOS=wasip1 GOARCH=wasm $(GO) build -trimpath -buildmode=c-shared -ldflags="-s -w" -o $@ ./plugin
	@echo "built $@, $$(wc -c < $@ | tr -d ' ') bytes"

$(DIST)/callonce-sdk.wasm:
	@mkdir -p $(DIST)
	@echo "building $@"
	@GOOS=wasip1 GOARCH=wasm $(GO) build -C plugin/sdk -trimpath -buildmode=c-shared -ldflags="-s -w" -o ../../$@ .
	@echo "built $@, $$(wc -c < $@ | tr -d ' ') bytes"

$(DIST)/callonce:
	@mkdir -p $(DIST)
	@echo "building $@"
	@$(GO) build -trimpath -o $@ ./plugin/cmd/callonce
	@echo "built $@"

$(DIST)/hostsim:
	@mkdir -p $(DIST)
	@echo "building $@"
	@$(GO) build -trimpath -o $@ ./hostsim/cmd/hostsim
	@echo "built $@"
