// The helper's types fit those of both generations of the SDK: compiled, not run.
import { Client as First } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as FirstTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Client as Second, StreamableHTTPClientTransport as SecondTransport } from "@modelcontextprotocol/client";
import { Caller, FileStore, keyedFetch } from "./callonce/index.js";

const url = new URL("http://127.0.0.1");
const first = new First({ name: "callonce-e2e", version: "1.0.0" });
await first.connect(new FirstTransport(url, { fetch: keyedFetch() }));
const one = await new Caller(first, { store: new FileStore("keys.json") }).call("intent", { name: "charge", arguments: {} });
const second = new Second({ name: "callonce-e2e", version: "1.0.0" });
await second.connect(new SecondTransport(url, { fetch: keyedFetch() }));
const two = await new Caller(second).call("intent", { name: "charge" });
console.log(one.content, two.content);
