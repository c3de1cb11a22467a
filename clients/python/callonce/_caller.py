from __future__ import annotations

import asyncio
import random
import time
import uuid
from dataclasses import replace
from typing import Any

from ._errors import CallonceError, NotSettled, ReconcileFirst, Refusal
from ._store import Entry, MemoryStore, Store
from ._transport import KEY_PLACE, LOST_TYPE, REPLAYED_PLACE

FIRST_WAIT, LONGEST_WAIT = 0.25, 5.0  # seconds between two sendings, unless the filter says more
REFUSAL_PLACE = "callonce.dev/refusal"
# What the SDKs say themselves when no answer came: a timeout (1.x: 408), a closed connection.
NO_ANSWER = {408, -32000, -32001}


class Caller:
    """Makes tool calls under keys, one key for each intent.

    session is what the SDK gives: a ClientSession, or a Client of the second generation.
    Its HTTP client should use a Transport. ttl is the filter's ttl for these tools, in
    seconds: an intent that was last sent longer ago is not sent again, since its key may
    be forgotten. patience, in seconds, bounds one call with all its repeats; it must be
    shorter than ttl.
    """

    def __init__(self, session: Any, store: Store | None = None, *, ttl: float = 300, patience: float = 120):
        if not 0 < patience < ttl:
            raise ValueError(f"want a patience above 0 and below ttl, got {patience} and {ttl}")
        self._session = session
        self._store = MemoryStore() if store is None else store
        self._ttl, self._patience = ttl, patience

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, *, intent: str, meta: dict[str, Any] | None = None) -> Any:
        """Calls a tool and returns the SDK's result, tool errors too.

        The call is repeated when the answer is lost or the filter says to come back. A
        JSON-RPC error of the server's is raised as the SDK raises it. Raises
        ReconcileFirst, KeyConflict, NotSettled and Refused, and what the store raises,
        before anything is sent.
        """
        end = time.monotonic() + self._patience
        wait = FIRST_WAIT
        while True:
            entry = self._begin(intent)
            last: BaseException | None = None
            refusal = None
            try:
                made = self._session.call_tool(tool, arguments, meta={**(meta or {}), KEY_PLACE: entry.key})
                result = await asyncio.wait_for(made, max(end - time.monotonic(), 0.001))
                refusal = Refusal.read((result.meta or {}).get(REFUSAL_PLACE), _text(result))
            except (TimeoutError, asyncio.TimeoutError) as fault:
                last = fault
            except Exception as fault:
                error = getattr(fault, "error", None)
                refusal = None if error is None else Refusal.read(error.data, error.message)
                if refusal is None and not _no_answer(fault, error):
                    if error is not None:
                        self._store.put(intent, replace(entry, done=True))
                    raise
                last = fault
            else:
                if refusal is None:
                    self._store.put(intent, replace(entry, done=True))
                    return result
            if refusal is not None and refusal.retry != "same_key_later":
                raise CallonceError.of(refusal) from last
            pause = random.uniform(wait / 2, wait)
            if refusal is not None:
                pause = max(pause, refusal.retry_after_ms / 1000)
            if time.monotonic() + pause >= end:
                said = "no answer came" if refusal is None else f"{refusal.type}: {refusal.message}"
                raise NotSettled(f"after {self._patience} s: {said}", refusal) from last
            await asyncio.sleep(pause)
            wait = min(2 * wait, LONGEST_WAIT)

    def forget(self, intent: str) -> None:
        """Drops an intent's key: the next call of that intent is a new one, and runs."""
        self._store.delete(intent)

    def _begin(self, intent: str) -> Entry:
        """Notes that an intent is sent now, before it is."""
        now = time.time()
        entry = self._store.get(intent)
        if entry is None:
            entry = Entry(uuid.uuid4().hex)
        elif entry.sent and not -60 < now - entry.sent < self._ttl:
            message = f"This intent was sent {now - entry.sent:.0f} s ago, and its key is remembered for {self._ttl} s: sent again, it could run again."
            ran = "yes" if entry.done else "unknown"
            raise ReconcileFirst(message, Refusal("callonce_key_expired", ran, "reconcile_first", message))
        entry = replace(entry, sent=now)
        self._store.put(intent, entry)
        return entry


def replayed(result: Any) -> bool:
    """Says whether a result was given before. Needs a Transport, or the policy's "marker": "meta"."""
    return (result.meta or {}).get(REPLAYED_PLACE) is True


def _text(result: Any) -> str:
    return "".join(part.text for part in result.content if part.type == "text")


def _no_answer(fault: Exception, error: Any) -> bool:
    if error is not None:
        data = error.data
        return error.code in NO_ANSWER or isinstance(data, dict) and data.get("type") == LOST_TYPE
    module = type(fault).__module__.partition(".")[0]
    return isinstance(fault, OSError) or module in ("httpx", "httpx2", "httpcore", "httpcore2", "anyio")
