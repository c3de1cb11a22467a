//go:build !wasip1

package proxy

import (
	"crypto/rand"
	"time"

	"github.com/callonce/callonce/plugin/ledger"
)

var start = time.Now()

func now() ledger.Mono { return ledger.Mono(time.Since(start)) }

func random(into []byte) { _, _ = rand.Read(into) }
