package main

import (
	"fmt"
	"strings"
	"testing"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// Each message is answered by its own kind, which changes nothing: Envoy ends a stream that gets another.
func TestGoOn(t *testing.T) {
	for _, in := range []*extproc.ProcessingRequest{
		{Request: &extproc.ProcessingRequest_RequestHeaders{}}, {Request: &extproc.ProcessingRequest_RequestBody{}}, {Request: &extproc.ProcessingRequest_RequestTrailers{}},
		{Request: &extproc.ProcessingRequest_ResponseHeaders{}}, {Request: &extproc.ProcessingRequest_ResponseBody{}}, {Request: &extproc.ProcessingRequest_ResponseTrailers{}},
	} {
		asked := strings.TrimPrefix(fmt.Sprintf("%T", in.Request), "*ext_procv3.ProcessingRequest_")
		got := strings.TrimPrefix(fmt.Sprintf("%T", goOn(in).Response), "*ext_procv3.ProcessingResponse_")
		if asked != got {
			t.Errorf("asked with %s: want the same, got %s", asked, got)
		}
	}
}
