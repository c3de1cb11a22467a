# callonce. `make` alone prints what there is.

DIST := dist
GO   ?= go

.DEFAULT_GOAL := help

.PHONY: help
help: ## Print this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: $(DIST)/callonce.wasm $(DIST)/hostsim ## Build dist/callonce.wasm and dist/hostsim

.PHONY: run
run: build ## Serve the filter in front of UPSTREAM, under CONFIG (default: a payments server), and print what to try; STORE=etcd: two proxies over one etcd
	@$(GO) build -C e2e -o ../$(DIST)/run ./cmd/run
	@$(if $(filter etcd,$(STORE)),$(GO) build -C e2e -o ../$(DIST)/etcd ./cmd/etcd)
	@exec $(DIST)/run $(if $(CONFIG),-config $(CONFIG)) $(if $(filter etcd,$(STORE)),-etcd $(DIST)/etcd)

.PHONY: demo
demo: build ## Play the scenarios of repeated calls, and count the charges at the server
	@$(GO) build -C e2e -o ../$(DIST)/demo ./cmd/demo
	@exec $(DIST)/demo

.PHONY: test
test: build ## Test everything that needs no Envoy
	$(GO) vet ./...
	$(GO) test -timeout 20m ./...

.PHONY: e2e
e2e: build ## Test on a real Envoy, which is installed when there is none
	$(GO) vet -C e2e ./...
	$(GO) vet -C plugin/internal/etcd/realtest ./...
	$(GO) test -C plugin/internal/etcd/realtest -count=1 ./...
	$(GO) test -C e2e -count=1 -timeout 60m ./...

.PHONY: bench
bench: build ## Measure the cost on a real Envoy, and the canonical form; OF=ledger and OF=hostsim measure those
	@$(GO) build -C e2e -o ../$(DIST)/bench ./cmd/bench
	@exec $(DIST)/bench $(if $(OF),-of $(OF))

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(DIST)

# Go itself knows what is up to date, so both are always asked for.
.PHONY: $(DIST)/callonce.wasm $(DIST)/hostsim
$(DIST)/callonce.wasm:
	@mkdir -p $(DIST)
	@echo "building $@"
	@GOOS=wasip1 GOARCH=wasm $(GO) build -trimpath -buildmode=c-shared -ldflags="-s -w" -o $@ ./plugin
	@echo "built $@, $$(wc -c < $@ | tr -d ' ') bytes"

$(DIST)/hostsim:
	@mkdir -p $(DIST)
	@echo "building $@"
	@$(GO) build -trimpath -o $@ ./hostsim/cmd/hostsim
	@echo "built $@"
