// Package spellings has the ways in which the path /mcp can be written: in each, some
// server or other still finds it, or something that lies below it. The tests send them
// all to every proxy that is to guard the path. Which server takes which it does not know.
package spellings

// MCP are the spellings of /mcp: escaped, escaped twice, with slashes doubled or escaped,
// in upper case, with parameters, through other folders, and whole URLs. Some can be sent
// by no HTTP client of Go, which would tidy them up first.
var MCP = []string{
	"/mcp", "/mcp/", "/mcp/team", "/mcp?x=/oauth", "/mcp#x",
	"/MCP", "/Mcp/",
	"/%6dcp", "/m%63p", "/%6D%63%70", "/%4dCP", "/%256dcp", "/%256D%2563p",
	"//mcp", "///mcp//", "/%2fmcp", "/%2f%2fmcp", "/mcp%2f", "/%252fmcp", "/%5cmcp", `/\mcp`,
	"/./mcp", "/%2e/mcp", "/x/../mcp", "/x/%2e%2e/mcp", "/x/%2E%2E/mcp/", "/x%2f..%2fmcp", "/x%2F..%2Fmcp", "/x%5c..%5cmcp", `/x\..\mcp`, "/mcp/../MCP",
	"/mcp;a=b", "/MCP;a", "/mcp%3ba=b", "/;/mcp", "/;a=b/mcp", "/.;/mcp", "/x;/../mcp", "/x/..;/mcp", "/%3b/mcp", "/%3Ba/mcp", "/%253b/mcp",
	"/mcp.json", "/mcp%20", "/mcp%00", "/mcp%23", "/mcp%3fx",
	"http://mcp.example.com/mcp", "http://mcp.example.com//MCP", "http://mcp.example.com/;/mcp",
}
