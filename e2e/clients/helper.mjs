// The TypeScript helper makes calls under intents and says what came of them.
//
// usage: node helper.mjs HELPER NODE_MODULES GENERATION < ORDERS
//
// HELPER is the compiled helper. Orders and answers are those of helper.py.
import { readFileSync } from "node:fs";
import { sdk } from "./sdk.mjs";

const [helper, modules, generation] = process.argv.slice(2);
const { Caller, CallonceError, FileStore, keyedFetch, replayed } = await import(helper);
const { Client, Transport } = sdk(modules, generation);

const orders = JSON.parse(readFileSync(0, "utf8"));
const client = new Client({ name: "callonce-e2e", version: "1.0.0" });
await client.connect(new Transport(new URL(orders.url), { fetch: keyedFetch() }));
const caller = new Caller(client, { store: new FileStore(orders.store), patience: orders.patience });
const calls = [];
for (const { intent, tool, arguments: args } of orders.calls) {
  try {
    if (tool === undefined) {
      await caller.forget(intent);
      calls.push({ kind: "forgotten" });
      continue;
    }
    const result = await caller.call(intent, { name: tool, arguments: args });
    calls.push({
      kind: result.isError ? "tool_error" : "result",
      text: result.content.map((part) => part.text ?? "").join(""),
      replayed: replayed(result),
      charge: result.structuredContent?.charge_id ?? "",
    });
  } catch (fault) {
    if (fault instanceof CallonceError) calls.push({ kind: fault.name, text: fault.message, refusal: fault.refusal?.type ?? "" });
    else calls.push({ kind: "exception", text: `${fault.name}: ${fault.message}` });
  }
}
console.log(JSON.stringify({ calls }));
process.exit(0); // without waiting for what still runs
