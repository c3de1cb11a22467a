package abi

import "unsafe"

// sharedData is the host's shared data as the ledger's table.
type sharedData struct{}

// Get implements ledger.Table. The value lies in this VM's scratch.
func (sharedData) Get(key string) ([]byte, uint32, bool, error) {
	p, n := pText(key)
	v, st := taken(proxyGetSharedData(p, n, pBytes(), pSize(), unsafe.Pointer(&returned.number)))
	switch st {
	case statusOK:
		return v, uint32(returned.number), true, nil
	case statusNotFound:
		return nil, 0, false, nil
	}
	return nil, 0, false, st
}

// Set implements ledger.Table.
func (sharedData) Set(key string, value []byte, cas uint32) (bool, error) {
	p, n := pText(key)
	switch st := proxySetSharedData(p, n, unsafe.Pointer(unsafe.SliceData(value)), uint32(len(value)), cas); st {
	case statusOK:
		return true, nil
	case statusCASMismatch:
		return false, nil
	default:
		return false, st
	}
}
