package hostsim

// Memory is the linear memory of a worker's VM in bytes: whole pages, of which a VM never gives one back. 0 when the worker has no VM.
func (h *Host) Memory(worker int) int64 {
	if worker < 0 || worker >= len(h.workers) {
		return 0
	}
	w := h.workers[worker]
	var size int64
	w.loop.do("memory", func() {
		if w.vm != nil {
			size = int64(w.vm.code.Size())
		}
	})
	return size
}
