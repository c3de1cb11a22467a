// The official TypeScript client does what it is told and says what it saw.
//
// usage: node ask.mjs NODE_MODULES GENERATION < QUESTIONS
//
// Questions and answers are those of ask.py.
import { readFileSync } from "node:fs";
import { sdk } from "./sdk.mjs";

const patience = 30_000; // milliseconds for one call
const [modules, generation] = process.argv.slice(2);
const { Client, Transport, RPCError, isTimeout } = sdk(modules, generation);

const questions = JSON.parse(readFileSync(0, "utf8"));
let key = null;
const transport = new Transport(new URL(questions.url), {
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
  await new Promise((resolve) => setTimeout(resolve, 1000 * (question.pause ?? 0)));
  key = question.key ?? null;
  const timeout = question.patience ? 1000 * question.patience : patience;
  try {
    const call = { name: question.tool, arguments: question.arguments };
    const result = await (generation === "2" ? client.callTool(call, { timeout }) : client.callTool(call, undefined, { timeout }));
    calls.push({
      kind: result.isError ? "tool_error" : "result",
      text: result.content.map((part) => part.text ?? "").join(""),
      data: result._meta?.["callonce.dev/refusal"],
      structured: result.structuredContent,
    });
  } catch (fault) {
    if (isTimeout(fault)) calls.push({ kind: "timeout" });
    else if (fault instanceof RPCError) calls.push({ kind: "error", text: fault.message, code: fault.code, data: fault.data });
    else calls.push({ kind: "exception", text: `${fault.name}: ${fault.message}` });
  }
  key = null;
}
const capabilities = client.getServerCapabilities();
await client.close();
console.log(JSON.stringify({ capabilities, tools: Object.fromEntries(tools.map((t) => [t.name, t.inputSchema])), calls }));
