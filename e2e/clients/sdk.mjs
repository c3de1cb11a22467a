// The two generations of the official TypeScript client, from a folder that is not this file's.
import { createRequire } from "node:module";
import { join } from "node:path";

export function sdk(modules, generation) {
  const require = createRequire(join(modules, "client.cjs"));
  if (generation === "2") {
    const { Client, StreamableHTTPClientTransport: Transport, ProtocolError, SdkError } = require("@modelcontextprotocol/client");
    return { Client, Transport, RPCError: ProtocolError, isTimeout: (fault) => fault instanceof SdkError && fault.code === "REQUEST_TIMEOUT" };
  }
  const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport: Transport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const { McpError: RPCError } = require("@modelcontextprotocol/sdk/types.js");
  return { Client, Transport, RPCError, isTimeout: (fault) => fault instanceof RPCError && fault.code === -32001 };
}
