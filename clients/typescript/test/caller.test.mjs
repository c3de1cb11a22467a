// usage: node --test, after npm run build; CALLONCE names another built index.js.
import assert from "node:assert/strict";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

const { Caller, FileStore, keyedFetch, KeyConflict, NotSettled, ReconcileFirst, Refused, replayed } = await import(
  process.env.CALLONCE ?? "../dist/index.js"
);
const place = "callonce.dev/idempotency-key";
const refusal = (type, may_have_run, retry) => ({ type, may_have_run, retry, operation: "0123", retry_after_ms: 1 });
const rpc = (code, data) => Object.assign(new Error("This call …"), { code, data });
const inFlight = rpc(-31410, refusal("idempotency_in_flight", "running", "same_key_later"));
const lost = rpc(-32000, { type: "callonce_answer_lost" });

/** Answers one call after the other, the last answer again and again, and notes their keys. */
function session(...answers) {
  const keys = [];
  return {
    keys,
    async callTool(call) {
      keys.push(call._meta[place]);
      const answer = answers[Math.min(keys.length, answers.length) - 1];
      if (answer instanceof Error) throw answer;
      return answer;
    },
  };
}

const file = async () => join(await mkdtemp(join(tmpdir(), "callonce-")), "keys.json");

test("one key for an intent, over restarts and at once", async () => {
  const path = await file();
  const s = session({});
  for (const intent of ["a", "a", "b"]) await new Caller(s, { store: new FileStore(path) }).call(intent, { name: "charge" });
  assert.equal(s.keys[0], s.keys[1]);
  assert.notEqual(s.keys[0], s.keys[2]);
  const caller = new Caller(s, { store: new FileStore(path) });
  await Promise.all([1, 2, 3].map(() => caller.call("c", { name: "charge" })));
  assert.equal(new Set(s.keys.slice(3)).size, 1);
});

test("repeats under the same key", async () => {
  const s = session(inFlight, lost, new TypeError("fetch failed", { cause: 1 }), { _meta: { "callonce.dev/replayed": true } });
  assert.ok(replayed(await new Caller(s).call("i", { name: "charge" })));
  assert.equal(s.keys.length, 4);
  assert.equal(new Set(s.keys).size, 1);
});

test("stops with a typed error", async () => {
  for (const [retry, kind] of [["reconcile_first", ReconcileFirst], ["new_key_if_new_intent", KeyConflict], ["after_fix", Refused], ["never", Refused], ["x", Refused]]) {
    const said = refusal("idempotency_x", "unknown", retry);
    for (const answer of [rpc(-31411, said), { isError: true, content: [{ type: "text", text: "This call …" }], _meta: { "callonce.dev/refusal": said } }]) {
      const s = session(answer);
      await assert.rejects(new Caller(s).call("i", { name: "charge" }), (fault) => {
        return fault.constructor === kind && fault.refusal.type === "idempotency_x" && fault.refusal.message === "This call …";
      });
      assert.equal(s.keys.length, 1);
    }
  }
});

test("an error of the server's is final, and patience ends", async () => {
  const s = session(rpc(-32602));
  await assert.rejects(new Caller(s).call("i", { name: "charge" }), { code: -32602 });
  assert.equal(s.keys.length, 1);
  await assert.rejects(new Caller(session(inFlight), { patience: 0.5 }).call("i", { name: "charge" }), NotSettled);
});

test("a key that may be forgotten, or a broken file, sends nothing", async () => {
  const path = await file();
  const s = session({});
  const call = () => new Caller(s, { store: new FileStore(path) }).call("i", { name: "charge" });
  await call();
  const kept = JSON.parse(await readFile(path, "utf8"));
  kept.intents.i.sent -= 301;
  await writeFile(path, JSON.stringify(kept));
  await assert.rejects(call(), (fault) => fault instanceof ReconcileFirst && fault.refusal.may_have_run === "yes");
  await writeFile(path, "{");
  await assert.rejects(call(), SyntaxError);
  assert.equal(s.keys.length, 1);
});

test("keyedFetch ends every call in a message", async () => {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 7, method: "tools/call", params: { name: "charge", _meta: { [place]: "k" } } });
  const ask = async (answer) => {
    let key;
    const fetch = keyedFetch(async (_, init) => {
      key = init.headers.get("Idempotency-Key");
      return answer();
    });
    const response = await fetch("http://x", { method: "POST", body });
    assert.equal(key, "k");
    assert.equal(response.status, 200);
    return response.text();
  };
  const event = 'event: message\ndata: {"jsonrpc":"2.0","id":7,"result":{}}\n\n';
  const events = (text) => () => new Response(text, { headers: { "content-type": "text/event-stream" } });
  const isLost = (text) => text.includes('"id":7,"error":{"code":-32000') && text.includes("callonce_answer_lost");
  const said = JSON.stringify({ jsonrpc: "2.0", id: 7, error: { code: -31429, message: "m", data: { type: "t", may_have_run: "no", retry: "r" } } });
  assert.ok(isLost(await ask(() => Promise.reject(new TypeError("fetch failed")))));
  assert.ok(isLost(await ask(() => new Response("no healthy upstream", { status: 503 }))));
  assert.match(await ask(() => new Response(said, { status: 429, headers: { "retry-after": "2" } })), /"retry_after_ms":2000/);
  assert.equal(await ask(events(event)), event);
  assert.equal((await ask(events(event.trimEnd()))).trimEnd(), event.trimEnd());
  const cut = await ask(events(event.slice(0, 40)));
  assert.ok(isLost(cut) && !cut.includes("result"));
  assert.ok(!isLost(await ask(events("id: 1\ndata:\n\n"))), "a stream that can be taken up again ends as it does");
});
