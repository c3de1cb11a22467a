// Package apiserver is as much of a Kubernetes API server as a control plane's informers
// need: it keeps objects in memory, lists and watches them by kind, and takes whatever a
// control plane writes. It validates nothing, and knows nothing of meshes but the names
// of their kinds.
package apiserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Object is any object of the API, as JSON has it.
type Object = map[string]any

// kinds are those that may be asked for while there is none of them: a list names its kind.
var kinds = strings.Fields(`Pod Service Namespace Node Secret ConfigMap Endpoints ServiceAccount Event EndpointSlice Ingress IngressClass Lease
	Deployment DaemonSet ReplicaSet StatefulSet Job CronJob HorizontalPodAutoscaler PodDisruptionBudget NetworkPolicy ClusterTrustBundle
	MutatingWebhookConfiguration ValidatingWebhookConfiguration ValidatingAdmissionPolicy CustomResourceDefinition
	WasmPlugin TrafficExtension Gateway VirtualService ServiceEntry WorkloadEntry WorkloadGroup DestinationRule EnvoyFilter Sidecar ProxyConfig
	AuthorizationPolicy RequestAuthentication PeerAuthentication Telemetry GatewayClass HTTPRoute GRPCRoute TCPRoute TLSRoute UDPRoute
	ReferenceGrant BackendTLSPolicy ListenerSet InferencePool ServiceExport ServiceImport`)

var clusterWide = []string{"Namespace", "Node", "CustomResourceDefinition", "GatewayClass"}

// plural is a kind's name in paths.
func plural(kind string) string {
	k := strings.ToLower(kind)
	switch {
	case k == "endpoints":
		return k
	case strings.HasSuffix(k, "ay"):
		return k + "s"
	case strings.HasSuffix(k, "y"):
		return strings.TrimSuffix(k, "y") + "ies"
	case strings.HasSuffix(k, "s"):
		return k + "es"
	}
	return k + "s"
}

// key is where an object lies: its version does not count.
type key struct{ group, resource, namespace, name string }

type event struct {
	version int
	kind    string // ADDED, MODIFIED, DELETED
	at      key
	object  Object
}

// Server serves the API over plain HTTP. Its methods may be called while it serves.
type Server struct {
	mu      sync.Mutex
	version int
	objects map[key]Object
	log     []event
	changed chan struct{} // closed at the next change
}

// New gives a server with the namespaces that each cluster has, and with resource
// definitions of the names given ("wasmplugins.extensions.istio.io").
func New(definitions ...string) *Server {
	s := &Server{version: 1, objects: map[key]Object{}, changed: make(chan struct{})}
	s.Namespaces("default", "kube-system")
	for _, name := range definitions {
		s.Apply(Object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": Object{"name": name}, "spec": Object{}, "status": Object{}})
	}
	return s
}

// Namespaces makes namespaces.
func (s *Server) Namespaces(names ...string) {
	for _, name := range names {
		s.Apply(Object{"apiVersion": "v1", "kind": "Namespace", "metadata": Object{"name": name, "labels": Object{"kubernetes.io/metadata.name": name}}, "status": Object{"phase": "Active"}})
	}
}

// Apply adds objects, or replaces those of the same name; who watches them is told.
func (s *Server) Apply(objects ...Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		s.put(clone(o))
	}
}

// Delete removes objects, of which only kind, group and name are looked at.
func (s *Server) Delete(objects ...Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		s.remove(place(clone(o)))
	}
}

// Get is an object of the server, nil where there is none.
func (s *Server) Get(o Object) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.objects[place(clone(o))]; found != nil {
		return clone(found)
	}
	return nil
}

func clone(o Object) Object {
	text, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("apiserver: want an object of JSON's types: %v", err))
	}
	var c Object
	_ = json.Unmarshal(text, &c) // it was written just now
	return c
}

func text(node any, path ...string) string {
	for _, name := range path {
		m, _ := node.(map[string]any)
		node = m[name]
	}
	s, _ := node.(string)
	return s
}

// place says where an object lies, and gives it the namespace that it has where it names none.
func place(o Object) key {
	kind, version := text(o, "kind"), text(o, "apiVersion")
	meta, _ := o["metadata"].(map[string]any)
	if meta == nil {
		meta = Object{}
		o["metadata"] = meta
	}
	if text(meta, "namespace") == "" && !slices.Contains(clusterWide, kind) {
		meta["namespace"] = "default"
	}
	group, _, ok := strings.Cut(version, "/")
	if !ok {
		group = ""
	}
	return key{group, plural(kind), text(meta, "namespace"), text(meta, "name")}
}

func (s *Server) put(o Object) Object {
	k := place(o)
	s.version++
	meta := o["metadata"].(map[string]any)
	meta["resourceVersion"] = strconv.Itoa(s.version)
	meta["uid"] = fmt.Sprintf("%s-%s-%s", k.resource, k.namespace, k.name)
	what, generation := "ADDED", 1.0
	if old := s.objects[k]; old != nil {
		what = "MODIFIED"
		generation, _ = old["metadata"].(map[string]any)["generation"].(float64)
		generation++
	}
	meta["generation"], meta["creationTimestamp"] = generation, "2026-01-01T00:00:00Z"
	s.objects[k] = o
	s.tell(event{s.version, what, k, o})
	return o
}

func (s *Server) remove(k key) Object {
	o := s.objects[k]
	if o == nil {
		return nil
	}
	delete(s.objects, k)
	s.version++
	s.tell(event{s.version, "DELETED", k, o})
	return o
}

func (s *Server) tell(e event) {
	s.log = append(s.log, e)
	close(s.changed)
	s.changed = make(chan struct{})
}

// request is what a path asks for.
type request struct {
	key
	version      string
	sub          string // a subresource, as "status"
	fields       string
	labels       string
	metadataOnly bool
}

func parse(r *http.Request) (q request, ok bool) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		q.version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		q.group, q.version, parts = parts[1], parts[2], parts[3:]
	default:
		return q, false
	}
	if parts[0] == "namespaces" && len(parts) >= 3 {
		q.namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	q.resource, q.name, q.sub = parts[0], parts[1], parts[2]
	q.fields, q.labels = r.URL.Query().Get("fieldSelector"), r.URL.Query().Get("labelSelector")
	q.metadataOnly = strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
	return q, true
}

func (q request) apiVersion() string {
	if q.group == "" {
		return q.version
	}
	return q.group + "/" + q.version
}

// selects says whether an object is among those that are asked for. Only equality is known.
func (q request) selects(k key, o Object) bool {
	if k.group != q.group || k.resource != q.resource || q.namespace != "" && k.namespace != q.namespace {
		return false
	}
	for field := range strings.SplitSeq(q.fields, ",") {
		if name, ok := strings.CutPrefix(field, "metadata.name="); ok && name != k.name {
			return false
		}
	}
	for label := range strings.SplitSeq(q.labels, ",") {
		name, value, ok := strings.Cut(label, "=")
		if ok && !strings.ContainsAny(name, "! ") && text(o, "metadata", "labels", name) != value {
			return false
		}
	}
	return true
}

func (q request) shape(o Object) Object {
	if q.metadataOnly {
		return Object{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o["metadata"]}
	}
	shaped := maps.Clone(o)
	shaped["apiVersion"] = q.apiVersion()
	return shaped
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, ok := parse(r)
	switch {
	case r.URL.Path == "/version":
		answer(w, 200, Object{"major": "1", "minor": "35", "gitVersion": "v1.35.0"})
	case !ok:
		answer(w, 200, Object{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{}})
	case r.Method == http.MethodGet && q.name == "" && r.URL.Query().Get("watch") != "":
		if r.URL.Query().Get("sendInitialEvents") == "true" {
			fail(w, 422, "Invalid") // the client then lists first
			return
		}
		s.watch(w, r, q)
	case r.Method == http.MethodGet:
		s.get(w, q)
	default:
		s.write(w, r, q)
	}
}

func (s *Server) get(w http.ResponseWriter, q request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.name != "" {
		if o := s.objects[q.key]; o != nil {
			answer(w, 200, q.shape(o))
		} else {
			fail(w, 404, "NotFound")
		}
		return
	}
	list := Object{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": Object{"resourceVersion": strconv.Itoa(s.version)}}
	items := []any{}
	for k, o := range s.objects {
		if q.selects(k, o) {
			items = append(items, q.shape(o))
		}
	}
	list["items"] = items
	if !q.metadataOnly {
		i := slices.IndexFunc(kinds, func(kind string) bool { return plural(kind) == q.resource })
		if i < 0 {
			fail(w, 404, "NotFound")
			return
		}
		list["kind"], list["apiVersion"] = kinds[i]+"List", q.apiVersion()
	}
	answer(w, 200, list)
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, q request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(200)
	flush := http.NewResponseController(w).Flush
	if flush() != nil {
		return
	}
	seen, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion")) // none: from the beginning
	for encoder := json.NewEncoder(w); ; {
		s.mu.Lock()
		var next []Object
		for _, e := range s.log {
			if e.version > seen && q.selects(e.at, e.object) {
				next = append(next, Object{"type": e.kind, "object": q.shape(e.object)})
			}
		}
		seen = s.version
		changed := s.changed
		s.mu.Unlock()
		for _, e := range next {
			if encoder.Encode(e) != nil {
				return
			}
		}
		if flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// write takes what a control plane says: its leases, events and statuses.
func (s *Server) write(w http.ResponseWriter, r *http.Request, q request) {
	var o Object
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Method {
	case http.MethodDelete:
		if s.remove(q.key) == nil {
			fail(w, 404, "NotFound")
			return
		}
		answer(w, 200, Object{"kind": "Status", "apiVersion": "v1", "status": "Success"})
		return
	case http.MethodPatch: // of a status: nobody reads it
		if o := s.objects[q.key]; o != nil {
			answer(w, 200, q.shape(o))
		} else {
			fail(w, 404, "NotFound")
		}
		return
	}
	if json.NewDecoder(r.Body).Decode(&o) != nil {
		fail(w, 415, "UnsupportedMediaType")
		return
	}
	if q.resource == "tokenreviews" {
		o["status"] = Object{"authenticated": true, "user": Object{"username": "system:serviceaccount:default:default"}}
		answer(w, 201, o)
		return
	}
	if q.namespace != "" {
		o["metadata"].(map[string]any)["namespace"] = q.namespace
	}
	if r.Method == http.MethodPost {
		if s.objects[place(o)] != nil {
			fail(w, 409, "AlreadyExists")
			return
		}
		answer(w, 201, s.put(o))
		return
	}
	answer(w, 200, s.put(o))
}

func fail(w http.ResponseWriter, status int, reason string) {
	answer(w, status, Object{"kind": "Status", "apiVersion": "v1", "metadata": Object{}, "status": "Failure", "reason": reason, "message": reason, "code": status})
}

func answer(w http.ResponseWriter, status int, o Object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A failed write means that the client has left.
	_ = json.NewEncoder(w).Encode(o)
}
