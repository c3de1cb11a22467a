export const keyPlace = "callonce.dev/idempotency-key";
export const replayedPlace = "callonce.dev/replayed";
export const lostType = "callonce_answer_lost";

type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>;
type Message = { id?: unknown; error?: { data?: Record<string, unknown> }; result?: { _meta?: Record<string, unknown> } };

/**
 * A fetch for the client's StreamableHTTPClientTransport, over another one.
 *
 * Of calls that carry a key in _meta, and of nothing else, it sends the key as the
 * header Idempotency-Key too; gives a refusal the status 200, since the client shows
 * the body of others only as text; puts a JSON-RPC error in the place of an answer that
 * was lost; and writes what headers say (Retry-After, Idempotency-Replayed) into the
 * message.
 */
export function keyedFetch(inner: Fetch = fetch): Fetch {
  return async (url, init) => {
    const call = keyedCall(init);
    if (call === undefined) return inner(url, init);
    const headers = new Headers(init?.headers);
    headers.set("Idempotency-Key", call.key);
    const lost = JSON.stringify({
      jsonrpc: "2.0",
      id: call.id,
      error: { code: -32000, message: "The answer to this call was lost on its way.", data: { type: lostType } },
    });
    let response: Response;
    let text: string;
    try {
      response = await inner(url, { ...init, headers });
      if (response.status === 200 && response.headers.get("content-type")?.startsWith("text/event-stream") && response.body) {
        return new Response(endedWith(lost, response.body), { status: 200, headers: decoded(response.headers) });
      }
      text = await response.text();
    } catch (fault) {
      if (init?.signal?.aborted) throw fault;
      return answer(lost);
    }
    const message = readMessage(text);
    if (message === undefined) {
      if (response.status >= 500 || [408, 429, 499].includes(response.status)) return answer(lost);
    } else if (typeof message.error?.data?.retry === "string") {
      const after = response.headers.get("retry-after") ?? "";
      if (!("retry_after_ms" in message.error.data) && /^\d{1,4}$/.test(after)) message.error.data.retry_after_ms = Number(after) * 1000;
      return answer(JSON.stringify(message));
    } else if (message.result && response.headers.get("idempotency-replayed") === "true") {
      message.result._meta = { ...message.result._meta, [replayedPlace]: true };
      return answer(JSON.stringify(message));
    }
    return new Response(text, { status: response.status, statusText: response.statusText, headers: decoded(response.headers) });
  };
}

/** The body is decoded already, and its length may be another. */
function decoded(headers: Headers): Headers {
  const kept = new Headers(headers);
  kept.delete("content-length");
  kept.delete("content-encoding");
  return kept;
}

function answer(body: string): Response {
  return new Response(body, { status: 200, headers: { "Content-Type": "application/json" } });
}

function keyedCall(init?: RequestInit): { key: string; id: unknown } | undefined {
  if (init?.method !== "POST" || typeof init.body !== "string") return undefined;
  const m = parse(init.body) as { method?: string; id?: unknown; params?: { _meta?: Record<string, unknown> } } | undefined;
  const key = m?.params?._meta?.[keyPlace];
  if (m?.method !== "tools/call" || m.id === undefined || typeof key !== "string") return undefined;
  return { key, id: m.id };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns a JSON-RPC response, or undefined. */
function readMessage(text: string): Message | undefined {
  const m = parse(text);
  if (typeof m !== "object" || m === null || "method" in m || !("result" in m || "error" in m)) return undefined;
  return m as Message;
}

/**
 * Passes an event stream on, each event once it is whole, and ends it with an error
 * message when it ends without the call's response. (Half an event, passed on, would be
 * taken for a message.) A stream whose server named its events may be taken up again
 * (MCP 2025-11-25), and ends as it does.
 */
function endedWith(lost: string, body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  const encoder = new TextEncoder();
  const events = new Events();
  return new ReadableStream({
    async pull(controller) {
      for (;;) {
        let fault: unknown;
        let whole: string;
        let ended = false;
        try {
          const { done, value } = await reader.read();
          ended = done;
          whole = events.take(done ? undefined : value);
        } catch (caught) {
          [ended, whole, fault] = [true, "", caught];
        }
        if (whole !== "") controller.enqueue(encoder.encode(whole));
        if (!ended) {
          if (whole === "") continue;
          return;
        }
        if (!events.response && !events.named) {
          controller.enqueue(encoder.encode(`event: message\ndata: ${lost}\n\n`));
        } else if (fault !== undefined) {
          controller.error(fault);
          return;
        }
        controller.close();
        return;
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

/** Cuts a stream into events, and looks for the response among them. */
class Events {
  response = false;
  named = false;
  readonly #decoder = new TextDecoder();
  #line = "";
  #event: string[] = [];

  /** Returns the events that are whole with this piece; at the end, undefined, what is left. */
  take(piece: Uint8Array | undefined): string {
    let text = this.#decoder.decode(piece, { stream: piece !== undefined });
    if (!piece && (this.#line || text || this.#event.length)) text += "\n\n"; // a last event may lack its blank line
    const lines = (this.#line + text).split("\n");
    this.#line = lines.pop() ?? "";
    let whole = "";
    for (const line of lines) {
      this.#event.push(line);
      if (line.replace(/\r$/, "") !== "") continue;
      this.#read();
      whole += this.#event.join("\n") + "\n";
      this.#event = [];
    }
    return whole;
  }

  #read() {
    const data: string[] = [];
    for (const line of this.#event) {
      const [, name, value] = /^([^:]*):? ?(.*?)\r?$/.exec(line) ?? [];
      if (name === "data") data.push(value ?? "");
      else if (name === "id" && value) this.named = true;
    }
    this.response ||= readMessage(data.join("\n")) !== undefined;
  }
}
