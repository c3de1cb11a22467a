import { randomUUID } from "node:crypto";
import { judge, NotSettled, readRefusal, ReconcileFirst, type Refusal } from "./errors.js";
import { keyPlace, lostType, replayedPlace } from "./fetch.js";
import { MemoryStore, type Entry, type Store } from "./store.js";

// Between two sendings, in milliseconds, unless the filter says more.
const firstWait = 250;
const longestWait = 5000;
const refusalPlace = "callonce.dev/refusal";
// What the SDKs say themselves when no answer came: a timeout, a closed connection.
const noAnswer = new Set<unknown>([-32000, -32001, "REQUEST_TIMEOUT", "CONNECTION_CLOSED"]);

export interface ToolCall {
  name: string;
  arguments?: Record<string, unknown>;
  _meta?: Record<string, unknown>;
}

export interface ToolResult {
  _meta?: Record<string, unknown>;
  content?: unknown;
  isError?: boolean;
}

/** What is used of the SDK's Client. */
export interface Session<R> {
  callTool(call: ToolCall): Promise<R>;
}

export interface CallerOptions {
  /** Keeps the keys; in memory, where no restart is survived, if there is none. */
  store?: Store;
  /**
   * The filter's ttl for these tools, in seconds; 300 if not set. An intent that was last
   * sent longer ago is not sent again, since its key may be forgotten.
   */
  ttl?: number;
  /** Bounds one call with all its repeats, in seconds; below ttl; 120 if not set. */
  patience?: number;
}

/**
 * Makes tool calls under keys, one key for each intent. The client's transport should
 * use keyedFetch.
 */
export class Caller<R extends ToolResult> {
  readonly #session: Session<R>;
  readonly #store: Store;
  readonly #ttl: number;
  readonly #patience: number;
  #last: Promise<unknown> = Promise.resolve();

  constructor(session: Session<R>, { store = new MemoryStore(), ttl = 300, patience = 120 }: CallerOptions = {}) {
    if (!(patience > 0 && patience < ttl)) throw new RangeError(`want a patience above 0 and below ttl, got ${patience} and ${ttl}`);
    this.#session = session;
    this.#store = store;
    this.#ttl = ttl;
    this.#patience = patience;
  }

  /**
   * Calls a tool and returns the SDK's result, tool errors too.
   *
   * The call is repeated when the answer is lost or the filter says to come back. A
   * JSON-RPC error of the server's is thrown as the SDK throws it. Throws ReconcileFirst,
   * KeyConflict, NotSettled and Refused, and what the store throws, before anything is
   * sent.
   */
  async call(intent: string, call: ToolCall): Promise<R> {
    const end = performance.now() + this.#patience * 1000;
    for (let wait = firstWait; ; wait = Math.min(2 * wait, longestWait)) {
      const entry = await this.#begin(intent);
      let refusal: Refusal | undefined;
      let last: unknown;
      try {
        const made = this.#session.callTool({ ...call, _meta: { ...call._meta, [keyPlace]: entry.key } });
        const result = await within(end - performance.now(), made);
        refusal = readRefusal(result._meta?.[refusalPlace], text(result));
        if (refusal === undefined) {
          await this.#store.put(intent, { ...entry, done: true });
          return result;
        }
      } catch (fault) {
        last = fault;
        const error = fault as { code?: unknown; data?: unknown; message?: string };
        refusal = readRefusal(error?.data, error?.message ?? "");
        if (refusal === undefined && !isNoAnswer(fault)) {
          if (typeof error?.code === "number") await this.#store.put(intent, { ...entry, done: true });
          throw fault;
        }
      }
      if (refusal !== undefined && refusal.retry !== "same_key_later") throw judge(refusal, last);
      const pause = Math.max(wait / 2 + (Math.random() * wait) / 2, refusal?.retry_after_ms ?? 0);
      if (performance.now() + pause >= end) {
        const said = refusal === undefined ? "no answer came" : `${refusal.type}: ${refusal.message}`;
        throw new NotSettled(`after ${this.#patience} s: ${said}`, refusal, last);
      }
      await new Promise((go) => setTimeout(go, pause));
    }
  }

  /** Drops an intent's key: the next call of that intent is a new one, and runs. */
  async forget(intent: string): Promise<void> {
    await this.#store.delete(intent);
  }

  /** Notes that an intent is sent now, before it is: one after the other, lest one intent get two keys. */
  #begin(intent: string): Promise<Entry> {
    const noted = this.#last.then(() => this.#note(intent));
    this.#last = noted.catch(() => {}); // whoever waits for noted is told
    return noted;
  }

  async #note(intent: string): Promise<Entry> {
    const now = Date.now() / 1000;
    const known = await this.#store.get(intent);
    if (known?.sent) {
      const age = now - known.sent;
      if (age >= this.#ttl || age < -60) {
        const message = `This intent was sent ${age.toFixed(0)} s ago, and its key is remembered for ${this.#ttl} s: sent again, it could run again.`;
        const may_have_run = known.done ? "yes" : "unknown";
        throw new ReconcileFirst(message, { type: "callonce_key_expired", may_have_run, retry: "reconcile_first", message });
      }
    }
    const entry = { key: known?.key ?? randomUUID(), sent: now, done: known?.done ?? false };
    await this.#store.put(intent, entry);
    return entry;
  }
}

/**
 * Says whether a result was given before. Needs keyedFetch, or the policy's
 * "marker": "meta".
 */
export function replayed(result: ToolResult): boolean {
  return result._meta?.[replayedPlace] === true;
}

const timeout = Symbol("no answer in time");

async function within<R>(milliseconds: number, made: Promise<R>): Promise<R> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, fail) => {
    timer = setTimeout(() => fail(timeout), milliseconds);
  });
  made.catch(() => {}); // once it is too late nobody listens
  try {
    return await Promise.race([made, late]);
  } finally {
    clearTimeout(timer);
  }
}

function isNoAnswer(fault: unknown): boolean {
  if (fault === timeout) return true;
  const { code, data, cause } = fault as { code?: unknown; data?: { type?: unknown }; cause?: unknown };
  // What fetch throws when the network fails is a TypeError with a cause.
  return noAnswer.has(code) || data?.type === lostType || (fault instanceof TypeError && cause !== undefined);
}

function text(result: ToolResult): string {
  if (!Array.isArray(result.content)) return "";
  return result.content.map((part) => (part as { text?: string }).text ?? "").join("");
}
