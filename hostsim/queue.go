package hostsim

import "sync"

type queueName struct{ vmID, name string }

// queueTable holds the process's shared queues. A queue has one registration, that of whoever registered the name last: only
// that VM's plugin context hears of messages, though every VM may take them out.
type queueTable struct {
	mu     sync.Mutex
	tokens map[queueName]uint32
	queues map[uint32]*queue
	next   uint32
	sent   int
}

type queue struct {
	messages [][]byte
	notify   func(token uint32)
}

func newQueueTable() queueTable {
	return queueTable{tokens: map[queueName]uint32{}, queues: map[uint32]*queue{}, next: 1}
}

// register makes notify the one that is told of messages. Messages already there stay and are not told again.
func (t *queueTable) register(n queueName, notify func(uint32)) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	token, ok := t.tokens[n]
	if !ok {
		token = t.next
		t.next++
		t.tokens[n] = token
		t.queues[token] = &queue{}
	}
	t.queues[token].notify = notify
	return token
}

// resolve returns 0 when no VM has registered the name.
func (t *queueTable) resolve(n queueName) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tokens[n]
}

func (t *queueTable) enqueue(token uint32, value []byte) Status {
	t.mu.Lock()
	q, ok := t.queues[token]
	if !ok {
		t.mu.Unlock()
		return StatusNotFound
	}
	q.messages = append(q.messages, append([]byte{}, value...))
	t.sent++
	notify := q.notify
	t.mu.Unlock()
	notify(token)
	return StatusOK
}

func (t *queueTable) dequeue(token uint32) ([]byte, Status) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q, ok := t.queues[token]
	if !ok {
		return nil, StatusNotFound
	}
	if len(q.messages) == 0 {
		return nil, StatusEmpty
	}
	m := q.messages[0]
	q.messages = q.messages[1:]
	return m, StatusOK
}

func (t *queueTable) drop(vmID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, token := range t.tokens {
		if n.vmID == vmID {
			delete(t.tokens, n)
			delete(t.queues, token)
		}
	}
}

// Queued is how many messages lie in the process's shared queues, and how many were ever sent. What no VM takes out stays for good.
func (h *Host) Queued() (waiting, sent int) {
	t := &h.store.queues
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range t.queues {
		waiting += len(q.messages)
	}
	return waiting, t.sent
}

func (v *vm) RegisterQueue(name string) (token uint32) {
	return v.host.store.queues.register(queueName{v.host.config.VMID, name}, v.host.notifier(v.number, v.loop, v.acting().root.id))
}

func (v *vm) ResolveQueue(vmID, name string) (token uint32) {
	if vmID == "" {
		vmID = v.host.config.VMID
	}
	return v.host.store.queues.resolve(queueName{vmID, name})
}

func (v *vm) Enqueue(token uint32, message []byte) Status {
	return v.host.store.queues.enqueue(token, message)
}
func (v *vm) Dequeue(token uint32) ([]byte, Status) { return v.host.store.queues.dequeue(token) }
