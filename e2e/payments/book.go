// Package payments is the MCP server of the demo and of the end-to-end tests: a
// tool that must not run twice, and a book that tells how often it really ran.
//
// It knows nothing of idempotency keys. Whatever makes a repeat safe stands in
// front of it, and the book is how one sees whether that worked.
package payments

import (
	"fmt"
	"slices"
	"sync"
)

// Charge is one entry of the book: money that was really taken.
type Charge struct {
	// ID is unique for the life of the book, also across [Book.Reset].
	ID string `json:"charge_id"`
	// Customer is who was charged; never empty.
	Customer string `json:"customer"`
	// AmountCents is in hundredths of the currency; at least 1.
	AmountCents int64 `json:"amount_cents"`
	// Note is free text of the caller's; may be empty.
	Note string `json:"note,omitempty"`
	// Refunded says that the amount was given back.
	Refunded bool `json:"refunded"`
}

// Book is the list of charges made. The zero value is an empty book. It may be
// used from any number of goroutines.
type Book struct {
	mu      sync.Mutex
	last    int
	running int
	charges []Charge
}

// begin counts a charge that has started, until the returned function ends it.
func (b *Book) begin() (end func()) {
	b.mu.Lock()
	b.running++
	b.mu.Unlock()
	return func() {
		b.mu.Lock()
		b.running--
		b.mu.Unlock()
	}
}

// Add makes a charge and returns it as entered. It fails on an empty customer
// and on an amount below one cent.
func (b *Book) Add(customer string, amountCents int64, note string) (Charge, error) {
	if err := check(customer, amountCents); err != nil {
		return Charge{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// Numbers go on after a reset, so that an answer from before it can never be
	// taken for a charge made after it.
	b.last++
	c := Charge{ID: fmt.Sprintf("ch_%d", b.last), Customer: customer, AmountCents: amountCents, Note: note}
	b.charges = append(b.charges, c)
	return c, nil
}

func check(customer string, amountCents int64) error {
	if customer == "" {
		return fmt.Errorf("customer: want a name, got an empty string")
	}
	if amountCents < 1 {
		return fmt.Errorf("amount_cents: want at least 1, got %d", amountCents)
	}
	return nil
}

// Charge returns the charge with that id; it fails when the book has none.
func (b *Book) Charge(id string) (Charge, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, err := b.find(id)
	if err != nil {
		return Charge{}, err
	}
	return *c, nil
}

// Refund marks the charge with that id as refunded and returns it. It fails when
// the book has no such charge, or when it was refunded before.
func (b *Book) Refund(id string) (Charge, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, err := b.find(id)
	if err != nil {
		return Charge{}, err
	}
	if c.Refunded {
		return Charge{}, fmt.Errorf("charge_id: %s is refunded already", id)
	}
	c.Refunded = true
	return *c, nil
}

func (b *Book) find(id string) (*Charge, error) {
	for i := range b.charges {
		if b.charges[i].ID == id {
			return &b.charges[i], nil
		}
	}
	return nil, fmt.Errorf("charge_id: no charge %q in the book of %d", id, len(b.charges))
}

// Charges returns a copy of all charges since the start or the last [Book.Reset],
// oldest first; never nil.
func (b *Book) Charges() []Charge {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Charge{}, b.charges...)
}

// Count returns how many charges were made since the start or the last
// [Book.Reset], refunded ones included.
func (b *Book) Count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.charges)
}

// CountFor returns how many of the charges are one customer's.
func (b *Book) CountFor(customer string) int {
	n := 0
	for _, c := range b.Charges() {
		if c.Customer == customer {
			n++
		}
	}
	return n
}

// Running returns how many charge calls have started and not ended yet.
func (b *Book) Running() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running
}

// Reset empties the book. Charges that are running are entered when they end.
func (b *Book) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.charges = slices.Delete(b.charges, 0, len(b.charges))
}
