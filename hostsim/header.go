package hostsim

import "github.com/callonce/callonce/hostsim/internal/header"

// Header is one line of headers or trailers: its Name, in lower case inside the host, and its Value.
type Header = header.Line
