package hostsim

// Shared data and queues.
var sharedFuncs = []hostFunc{
	{name: "proxy_get_shared_data", words: 5, describe: describeKey, run: getSharedData},
	{name: "proxy_set_shared_data", words: 5, describe: describeSet, run: setSharedData},
	{name: "proxy_register_shared_queue", words: 3, describe: describeKey, run: registerQueue},
	{name: "proxy_resolve_shared_queue", words: 5, run: resolveQueue},
	{name: "proxy_enqueue_shared_queue", words: 3, describe: describeMessage, run: enqueueQueue},
	{name: "proxy_dequeue_shared_queue", words: 3, run: dequeueQueue},
}

func describeKey(v *vm, s []uint64, c *Call)     { c.Key, _ = v.bytesArg(s, 0) }
func describeMessage(v *vm, s []uint64, c *Call) { c.Value, _ = v.bytesArg(s, 1) }

func describeSet(v *vm, s []uint64, c *Call) {
	c.Key, _ = v.bytesArg(s, 0)
	c.Value, _ = v.bytesArg(s, 2)
	c.CAS = word(s, 4)
}

func getSharedData(v *vm, s []uint64, _ *Call) Status {
	key, ok := v.bytesArg(s, 0)
	if !ok {
		return StatusInvalidMemory
	}
	value, cas, ok := v.host.store.Get(v.host.config.VMID, string(key))
	if !ok {
		return StatusNotFound
	}
	if st := v.give(value, word(s, 2), word(s, 3)); st != StatusOK {
		return st
	}
	if !v.mem.WriteUint32Le(word(s, 4), cas) {
		return StatusInvalidMemory
	}
	return StatusOK
}

func setSharedData(v *vm, s []uint64, c *Call) Status {
	if _, ok := v.mem.Read(word(s, 0), word(s, 1)); !ok {
		return StatusInvalidMemory
	}
	if _, ok := v.mem.Read(word(s, 2), word(s, 3)); !ok {
		return StatusInvalidMemory
	}
	if c == nil {
		c = &Call{}
		describeSet(v, s, c)
	}
	return v.host.store.Set(v.host.config.VMID, string(c.Key), c.Value, c.CAS)
}

func registerQueue(v *vm, s []uint64, _ *Call) Status {
	name, ok := v.bytesArg(s, 0)
	if !ok {
		return StatusInvalidMemory
	}
	id := v.acting().root.id
	token := v.host.store.queues.register(queueName{v.host.config.VMID, string(name)}, v.host.notifier(v.number, v.loop, id))
	if !v.mem.WriteUint32Le(word(s, 2), token) {
		return StatusInvalidMemory
	}
	return StatusOK
}

func resolveQueue(v *vm, s []uint64, _ *Call) Status {
	vmID, ok1 := v.bytesArg(s, 0)
	name, ok2 := v.bytesArg(s, 2)
	if !ok1 || !ok2 {
		return StatusInvalidMemory
	}
	if len(vmID) == 0 {
		vmID = []byte(v.host.config.VMID)
	}
	token := v.host.store.queues.resolve(queueName{string(vmID), string(name)})
	if token == 0 {
		return StatusNotFound
	}
	if !v.mem.WriteUint32Le(word(s, 4), token) {
		return StatusInvalidMemory
	}
	return StatusOK
}

func enqueueQueue(v *vm, s []uint64, _ *Call) Status {
	data, ok := v.bytesArg(s, 1)
	if !ok {
		return StatusInvalidMemory
	}
	return v.host.store.queues.enqueue(word(s, 0), data)
}

func dequeueQueue(v *vm, s []uint64, _ *Call) Status {
	data, st := v.host.store.queues.dequeue(word(s, 0))
	if st != StatusOK {
		return st
	}
	return v.give(data, word(s, 1), word(s, 2))
}
