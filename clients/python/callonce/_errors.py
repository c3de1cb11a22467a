from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Refusal:
    """The filter's word on a call.

    type is its stable name; may_have_run is no, yes, running or unknown; retry is
    same_key_later, reconcile_first, new_key_if_new_intent, after_fix or never;
    operation is the key's public hash, which operators find in their logs; message was
    written for a model to read; retry_after_ms is 0 where nothing is said.
    """

    type: str
    may_have_run: str
    retry: str
    message: str = ""
    operation: str = ""
    retry_after_ms: int = 0

    @classmethod
    def read(cls, data: Any, message: str) -> Refusal | None:
        """Reads the data of an error; None for that of any other error."""
        if not isinstance(data, dict):
            return None
        words = [data.get(name) for name in ("type", "may_have_run", "retry")]
        if not all(isinstance(word, str) and word for word in words):
            return None
        wait = data.get("retry_after_ms")
        return cls(*words, message, str(data.get("operation", "")), wait if isinstance(wait, int) else 0)


class CallonceError(Exception):
    """What Caller.call stops at. refusal is the filter's word, or None."""

    def __init__(self, message: str, refusal: Refusal | None = None):
        super().__init__(message)
        self.refusal = refusal

    @classmethod
    def of(cls, refusal: Refusal) -> CallonceError:
        kinds = {"reconcile_first": ReconcileFirst, "new_key_if_new_intent": KeyConflict}
        return kinds.get(refusal.retry, Refused)(f"{refusal.type}: {refusal.message}", refusal)


class ReconcileFirst(CallonceError):
    """The tool may have run, and a repeat could run it again. Look whether it did; then
    Caller.forget the intent, where it is to run (again)."""


class KeyConflict(CallonceError):
    """This intent's key was used for another call."""


class NotSettled(CallonceError):
    """Patience is at its end. The key is kept: the same intent can be tried again."""


class Refused(CallonceError):
    """The call can not be made so. Repeating it does not help."""
