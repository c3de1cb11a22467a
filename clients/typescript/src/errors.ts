/** The filter's word on a call. */
export interface Refusal {
  /** Its stable name, such as idempotency_in_flight. */
  type: string;
  /** Whether the tool ran for this intent: no, yes, running or unknown. */
  may_have_run: string;
  /** What to do: same_key_later, reconcile_first, new_key_if_new_intent, after_fix or never. */
  retry: string;
  /** The key's public hash, which operators find in their logs; may be missing. */
  operation?: string;
  /** How long to wait, in milliseconds; missing where nothing is said. */
  retry_after_ms?: number;
  /** Written for a model to read. */
  message: string;
}

/** What Caller.call stops at. */
export class CallonceError extends Error {
  /** The filter's word, if there was one. */
  readonly refusal: Refusal | undefined;

  constructor(message: string, refusal?: Refusal, cause?: unknown) {
    super(message, { cause });
    this.name = new.target.name;
    this.refusal = refusal;
  }
}

/**
 * The tool may have run, and a repeat could run it again. Look whether it did; then
 * forget the intent, where it is to run (again).
 */
export class ReconcileFirst extends CallonceError {}

/** This intent's key was used for another call. */
export class KeyConflict extends CallonceError {}

/** Patience is at its end. The key is kept: the same intent can be tried again. */
export class NotSettled extends CallonceError {}

/** The call can not be made so. Repeating it does not help. */
export class Refused extends CallonceError {}

/** Reads the data of an error; undefined for that of any other error. */
export function readRefusal(data: unknown, message: string): Refusal | undefined {
  if (typeof data !== "object" || data === null) return undefined;
  const d = data as Record<string, unknown>;
  for (const name of ["type", "may_have_run", "retry"]) {
    if (typeof d[name] !== "string" || d[name] === "") return undefined;
  }
  return { ...(d as unknown as Refusal), message };
}

export function judge(refusal: Refusal, cause?: unknown): CallonceError {
  const text = `${refusal.type}: ${refusal.message}`;
  switch (refusal.retry) {
    case "reconcile_first":
      return new ReconcileFirst(text, refusal, cause);
    case "new_key_if_new_intent":
      return new KeyConflict(text, refusal, cause);
    default:
      return new Refused(text, refusal, cause);
  }
}
