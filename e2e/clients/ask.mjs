// The official TypeScript client does what it is told and says what it saw.
//
// usage: node ask.mjs NODE_MODULES < QUESTIONS
//
// Questions and answers are those of ask.py.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const patience = 30_000; // milliseconds for one call
const [modules] = process.argv.slice(2);
// The packages lie elsewhere than this file, where "import" would not find them.
const require = createRequire(join(modules, "client.cjs"));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { McpError } = require("@modelcontextprotocol/sdk/types.js");

const questions = JSON.parse(readFileSync(0, "utf8"));
let key = null;
const transport = new StreamableHTTPClientTransport(new URL(questions.url), {
  fetch: (target, init) => {
    const headers = new Headers(init?.headers);
    if (key !== null) headers.set("Idempotency-Key", key);
    return fetch(target, { ...init, headers });
  },
});
const client = new Client({ name: "callonce-e2e", version: "1.0.0" });
await client.connect(transport);
const { tools } = await client.listTools();
const calls = [];
for (const question of questions.calls) {
  key = question.key ?? null;
  try {
    const result = await client.callTool({ name: question.tool, arguments: question.arguments }, undefined, { timeout: patience });
    calls.push({
      kind: result.isError ? "tool_error" : "result",
      text: result.content.map((part) => part.text ?? "").join(""),
      data: result._meta?.["callonce.dev/refusal"],
      structured: result.structuredContent,
    });
  } catch (fault) {
    if (fault instanceof McpError && fault.code === -32001) calls.push({ kind: "timeout" });
    else if (fault instanceof McpError) calls.push({ kind: "error", text: fault.message, code: fault.code, data: fault.data });
    else calls.push({ kind: "exception", text: `${fault.name}: ${fault.message}` });
  }
  key = null;
}
const capabilities = client.getServerCapabilities();
await client.close();
console.log(JSON.stringify({ capabilities, tools: Object.fromEntries(tools.map((t) => [t.name, t.inputSchema])), calls }));
