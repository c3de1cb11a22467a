package abi

// Shared data and queues.
var sharedFuncs = []function{
	{name: "proxy_get_shared_data", words: 5, describe: describeKey, run: getSharedData},
	{name: "proxy_set_shared_data", words: 5, describe: describeSet, run: setSharedData},
	{name: "proxy_register_shared_queue", words: 3, describe: describeKey, run: registerQueue},
	{name: "proxy_resolve_shared_queue", words: 5, run: resolveQueue},
	{name: "proxy_enqueue_shared_queue", words: 3, describe: describeMessage, run: enqueueQueue},
	{name: "proxy_dequeue_shared_queue", words: 3, run: dequeueQueue},
}

func describeKey(g *Guest, s []uint64, a *Arguments)     { a.Key, _ = g.bytes(s, 0) }
func describeMessage(g *Guest, s []uint64, a *Arguments) { a.Value, _ = g.bytes(s, 1) }

func describeSet(g *Guest, s []uint64, a *Arguments) {
	a.Key, _ = g.bytes(s, 0)
	a.Value, _ = g.bytes(s, 2)
	a.CAS = word(s, 4)
}

func getSharedData(g *Guest, s []uint64, _ *Arguments) Status {
	key, ok := g.bytes(s, 0)
	if !ok {
		return InvalidMemory
	}
	value, cas, ok := g.Proxy.SharedData(string(key))
	if !ok {
		return NotFound
	}
	if st := g.give(value, word(s, 2), word(s, 3)); st != OK {
		return st
	}
	return written(g.Memory.WriteUint32Le(word(s, 4), cas))
}

func setSharedData(g *Guest, s []uint64, a *Arguments) Status {
	if _, ok := g.Memory.Read(word(s, 0), word(s, 1)); !ok {
		return InvalidMemory
	}
	if _, ok := g.Memory.Read(word(s, 2), word(s, 3)); !ok {
		return InvalidMemory
	}
	if a == nil {
		a = &Arguments{}
		describeSet(g, s, a)
	}
	return g.Proxy.SetSharedData(string(a.Key), a.Value, a.CAS)
}

func registerQueue(g *Guest, s []uint64, _ *Arguments) Status {
	name, ok := g.bytes(s, 0)
	if !ok {
		return InvalidMemory
	}
	return written(g.Memory.WriteUint32Le(word(s, 2), g.Proxy.RegisterQueue(string(name))))
}

func resolveQueue(g *Guest, s []uint64, _ *Arguments) Status {
	vmID, ok1 := g.bytes(s, 0)
	name, ok2 := g.bytes(s, 2)
	if !ok1 || !ok2 {
		return InvalidMemory
	}
	token := g.Proxy.ResolveQueue(string(vmID), string(name))
	if token == 0 {
		return NotFound
	}
	return written(g.Memory.WriteUint32Le(word(s, 4), token))
}

func enqueueQueue(g *Guest, s []uint64, _ *Arguments) Status {
	data, ok := g.bytes(s, 1)
	if !ok {
		return InvalidMemory
	}
	return g.Proxy.Enqueue(word(s, 0), data)
}

func dequeueQueue(g *Guest, s []uint64, _ *Arguments) Status {
	data, st := g.Proxy.Dequeue(word(s, 0))
	if st != OK {
		return st
	}
	return g.give(data, word(s, 1), word(s, 2))
}
