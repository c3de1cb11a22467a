package policy

// Lacks is what the binding cannot do that joins the filter to its proxy: nothing, for the one that ships.
type Lacks struct {
	// Binding names it, for operators: "on the Go SDK".
	Binding string
	GRPC    bool // calls to a store outside of the proxy
	// Callouts that outlive the stream that made them.
	Callouts bool
}

// Beyond gives the members that ask for what the binding lacks: to leave them without effect would break what they promise.
func (c *Config) Beyond(l Lacks) (all Mistakes) {
	refuse := func(at, found, expected, why string) {
		all = append(all, Mistake{at, found, expected + ": the filter " + l.Binding + " " + why})
	}
	if l.GRPC && c.Store.Kind == Etcd {
		refuse("/store/kind", `"etcd"`, `"shared_data"`, "makes no gRPC calls")
	}
	if !l.Callouts {
		return all
	}
	const cannot = "cannot read the answer of a call whose caller has left"
	for _, p := range c.Policies {
		at := child("/policies", p.Name)
		if p.onDisconnect == secondWord && p.detaches() {
			refuse(at+"/on_disconnect", `"continue"`, `"stop"`, cannot)
		}
		for i := range p.Tools {
			t, tool := &p.Tools[i], at+"/tools/"+itoa(i)
			switch {
			case !t.Detach:
			case t.detach == secondWord:
				refuse(tool+"/detach", "true", "false", cannot)
			case t.onDisconnect == secondWord:
				refuse(tool+"/on_disconnect", `"continue"`, `"stop"`, cannot)
			}
		}
	}
	return all
}
