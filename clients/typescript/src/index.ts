/**
 * Makes the tool calls of an official MCP client safe to repeat, together with the
 * filter callonce at the server's side.
 *
 * A Caller mints a key for each intent, keeps it over restarts, repeats under the same
 * key as told, and stops where somebody must look first. keyedFetch, below the client,
 * sees to it that every call ends in something that the client can read. Neither
 * imports the SDK: both work with the first and the second generation of it.
 */
export { Caller, replayed, type CallerOptions, type Session, type ToolCall, type ToolResult } from "./caller.js";
export { CallonceError, KeyConflict, NotSettled, ReconcileFirst, Refused, type Refusal } from "./errors.js";
export { keyedFetch } from "./fetch.js";
export { FileStore, MemoryStore, type Entry, type Store } from "./store.js";
