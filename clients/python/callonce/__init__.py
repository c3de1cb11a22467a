"""Makes the tool calls of an official MCP client session safe to repeat, together with
the filter callonce at the server's side.

A Caller mints a key for each intent, keeps it over restarts, repeats under the same key
as told, and stops where somebody must look first. A Transport below the session sees to
it that every call ends in something that the session can read. Neither imports the SDK:
both work with the first and the second generation of it.
"""

from ._caller import Caller, replayed
from ._errors import CallonceError, KeyConflict, NotSettled, ReconcileFirst, Refused, Refusal
from ._store import Entry, FileStore, MemoryStore, Store
from ._transport import Transport

__all__ = [
    "Caller", "CallonceError", "Entry", "FileStore", "KeyConflict", "MemoryStore", "NotSettled", "ReconcileFirst",
    "Refusal", "Refused", "Store", "Transport", "replayed",
]  # fmt: skip
