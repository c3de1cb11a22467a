from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import dataclass
from typing import Any, Protocol

KEPT_DONE = 7 * 24 * 3600  # seconds for which a FileStore keeps entries whose answer came


@dataclass(frozen=True)
class Entry:
    """What is kept of an intent: its key, when it was last sent (seconds since 1970, 0 =
    never), and whether its answer came."""

    key: str
    sent: float = 0
    done: bool = False


class Store(Protocol):
    """Keeps entries by intent. put must not return before the entry would outlive a crash."""

    def get(self, intent: str) -> Entry | None: ...
    def put(self, intent: str, entry: Entry) -> None: ...
    def delete(self, intent: str) -> None: ...


class MemoryStore:
    """Survives no restart."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def get(self, intent: str) -> Entry | None:
        return self._entries.get(intent)

    def put(self, intent: str, entry: Entry) -> None:
        self._entries[intent] = entry

    def delete(self, intent: str) -> None:
        self._entries.pop(intent, None)


class FileStore:
    """Keeps entries in one JSON file, which the Go and the TypeScript helper read too.

    One process at a time may use a file. Entries whose answer came are dropped a week
    after they were sent. The folder must be there. Raises OSError and ValueError.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self._path = os.fspath(path)

    def _read(self) -> dict[str, Any]:
        try:
            with open(self._path, encoding="utf-8") as file:
                kept = json.load(file)
        except FileNotFoundError:
            return {}
        # Never a new key where an old one can not be read: that would be a second run.
        if not isinstance(kept, dict) or kept.get("version") != 1 or not isinstance(kept.get("intents"), dict):
            raise ValueError(f"{self._path}: want version 1 of the file of keys")
        return kept["intents"]

    def get(self, intent: str) -> Entry | None:
        kept = self._read().get(intent)
        return None if kept is None else Entry(kept["key"], kept["sent"], kept["done"])

    def put(self, intent: str, entry: Entry) -> None:
        self._write({**self._read(), intent: {"key": entry.key, "sent": entry.sent, "done": entry.done}})

    def delete(self, intent: str) -> None:
        intents = self._read()
        if intents.pop(intent, None) is not None:
            self._write(intents)

    def _write(self, intents: dict[str, Any]) -> None:
        oldest = time.time() - KEPT_DONE
        intents = {name: e for name, e in intents.items() if not (e["done"] and e["sent"] < oldest)}
        # After a crash there is the old file or the new one.
        folder, name = os.path.split(os.path.abspath(self._path))
        handle, temporary = tempfile.mkstemp(prefix=name + ".", dir=folder)  # mode 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"version": 1, "intents": intents}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._path)
        except BaseException:
            os.unlink(temporary)
            raise
