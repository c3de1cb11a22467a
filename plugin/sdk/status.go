package main

import (
	"strconv"
	"strings"
)

// status is what a function of the host returned. The SDK makes errors of statuses, each with a text of its own; operators read the same words
// whichever binding writes them.
type status uint32

const (
	notFound     status = 1
	parseFailure status = 4
)

var names = [...]string{
	"ok", "not found", "bad argument", "serialization failure", "parse failure", "bad expression", "invalid memory access", "empty", "cas mismatch",
	"result mismatch", "internal failure", "broken connection", "unimplemented",
}

// Error implements error.
func (s status) Error() string {
	text := "the proxy returned status " + strconv.FormatUint(uint64(s), 10)
	if int(s) < len(names) {
		text += " (" + names[s] + ")"
	}
	return text
}

// told gives the SDK's error in our words.
func told(err error) error {
	if err == nil {
		return nil
	}
	return statusIn(err.Error())
}

// statusIn finds the status in the SDK's text, whose last word or number it is.
func statusIn(text string) status {
	text = text[strings.LastIndex(text, ": ")+len(": "):]
	for i, name := range names {
		if text == name {
			return status(i)
		}
	}
	n, _ := strconv.ParseUint(text, 10, 32)
	return status(n)
}
