// Command processor is an external processor for Envoy (ext_proc) that does nothing: it lets go on whatever it is shown. With
// -listen it takes an address; it runs until it is ended.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`ADDRESS` to take connections at")
	flag.Parse()
	if err := serve(*listen); err != nil {
		fmt.Fprintln(os.Stderr, "processor:", err)
		os.Exit(1)
	}
}

func serve(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	extproc.RegisterExternalProcessorServer(s, processor{})
	return s.Serve(l)
}

type processor struct {
	extproc.UnimplementedExternalProcessorServer
}

// Process answers all that comes of one stream of HTTP.
func (processor) Process(stream extproc.ExternalProcessor_ProcessServer) error {
	for {
		in, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := stream.Send(goOn(in)); err != nil {
			return err
		}
	}
}

// goOn is the answer that changes nothing.
func goOn(in *extproc.ProcessingRequest) *extproc.ProcessingResponse {
	out := &extproc.ProcessingResponse{}
	switch in.Request.(type) {
	case *extproc.ProcessingRequest_RequestHeaders:
		out.Response = &extproc.ProcessingResponse_RequestHeaders{RequestHeaders: &extproc.HeadersResponse{}}
	case *extproc.ProcessingRequest_RequestBody:
		out.Response = &extproc.ProcessingResponse_RequestBody{RequestBody: &extproc.BodyResponse{}}
	case *extproc.ProcessingRequest_RequestTrailers:
		out.Response = &extproc.ProcessingResponse_RequestTrailers{RequestTrailers: &extproc.TrailersResponse{}}
	case *extproc.ProcessingRequest_ResponseHeaders:
		out.Response = &extproc.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extproc.HeadersResponse{}}
	case *extproc.ProcessingRequest_ResponseBody:
		out.Response = &extproc.ProcessingResponse_ResponseBody{ResponseBody: &extproc.BodyResponse{}}
	case *extproc.ProcessingRequest_ResponseTrailers:
		out.Response = &extproc.ProcessingResponse_ResponseTrailers{ResponseTrailers: &extproc.TrailersResponse{}}
	}
	return out
}
