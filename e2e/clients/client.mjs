// The official TypeScript client makes one call twice under one key.
//
// usage: node client.mjs NODE_MODULES URL KEY CUSTOMER
//
// Prints what it saw as one JSON object: {"tools": [name, ...], "charges": [id, id],
// "replayed": [bool, bool]}.
import { createRequire } from "node:module";
import { join } from "node:path";

if (process.argv.length !== 6) {
  console.error("usage: node client.mjs NODE_MODULES URL KEY CUSTOMER");
  process.exit(2);
}
const [modules, url, key, customer] = process.argv.slice(2);
// The packages lie elsewhere than this file, where "import" would not find them.
const require = createRequire(join(modules, "client.cjs"));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

const replayed = [];
const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { "Idempotency-Key": key } },
  fetch: async (target, init) => {
    const response = await fetch(target, init);
    if (init?.method === "POST" && String(init.body).includes('"tools/call"')) {
      replayed.push(response.headers.get("Idempotency-Replayed") === "true");
    }
    return response;
  },
});
const client = new Client({ name: "callonce-e2e", version: "1.0.0" });
await client.connect(transport);
const { tools } = await client.listTools();
const charges = [];
for (let i = 0; i < 2; i++) {
  const result = await client.callTool({ name: "charge", arguments: { customer, amount_cents: 1200 } });
  if (result.isError) throw new Error(`charge: want a result, got the error ${JSON.stringify(result.content)}`);
  charges.push(result.structuredContent.charge_id);
}
await client.close();
console.log(JSON.stringify({ tools: tools.map((t) => t.name), charges, replayed }));
