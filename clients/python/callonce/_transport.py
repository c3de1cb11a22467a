"""Below the session: HTTP."""

from __future__ import annotations

import importlib
import json
from typing import Any

KEY_PLACE = "callonce.dev/idempotency-key"
REPLAYED_PLACE = "callonce.dev/replayed"
HEADER = "Idempotency-Key"
LOST_TYPE = "callonce_answer_lost"
_LOST = {"code": -32000, "message": "The answer to this call was lost on its way.", "data": {"type": LOST_TYPE}}


class Transport:
    """A transport for the AsyncClient of httpx or httpx2, over another one.

        http = httpx.AsyncClient(transport=callonce.Transport(httpx.AsyncHTTPTransport()))

    Of calls that carry a key in _meta, and of nothing else, it
    - sends the key as the header Idempotency-Key too;
    - gives a refusal the status 200: at any other status the first generation of the
      SDK ends the whole connection;
    - puts a JSON-RPC error in the place of an answer that was lost, for the same reason;
    - writes what headers say (Retry-After, Idempotency-Replayed) into the message, since
      sessions show no headers.
    """

    def __init__(self, inner: Any):
        self._inner = inner

    async def __aenter__(self) -> Transport:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *fault: Any) -> None:
        await self._inner.__aexit__(*fault)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def handle_async_request(self, request: Any) -> Any:
        call = await _keyed_call(request)
        if call is None:
            return await self._inner.handle_async_request(request)
        request.headers[HEADER] = call["params"]["_meta"][KEY_PLACE]
        http = importlib.import_module(type(request).__module__.partition(".")[0])
        lost = json.dumps({"jsonrpc": "2.0", "id": call["id"], "error": _LOST}).encode()
        try:
            response = await self._inner.handle_async_request(request)
            kind = response.headers.get("content-type", "")
            if response.status_code == 200 and kind.startswith("text/event-stream"):
                headers = [(k, v) for k, v in response.headers.raw if k.lower() not in (b"content-length", b"content-encoding")]
                return http.Response(200, headers=headers, stream=_stream(http, response, lost), extensions=response.extensions)
            body = await _read_all(response)
        except (http.TransportError, OSError):
            return _answer(http, lost)
        message = _message(body)
        if message is None:
            if response.status_code >= 500 or response.status_code in (408, 429, 499):
                return _answer(http, lost)
            return _same(http, response, body)
        if isinstance(data := message.get("error", {}).get("data"), dict) and "retry" in data:
            _note_wait(data, response.headers.get("retry-after", ""))
            return _answer(http, json.dumps(message).encode())
        if isinstance(result := message.get("result"), dict):
            if response.headers.get("idempotency-replayed") == "true":
                result.setdefault("_meta", {})[REPLAYED_PLACE] = True
                return _answer(http, json.dumps(message).encode())
        return _same(http, response, body)


async def _keyed_call(request: Any) -> dict[str, Any] | None:
    if request.method != "POST":
        return None
    message = _parse(await request.aread())
    try:
        if message["method"] == "tools/call" and isinstance(message["params"]["_meta"][KEY_PLACE], str) and "id" in message:
            return message
    except (KeyError, TypeError):
        pass
    return None


def _parse(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _message(text: bytes) -> dict[str, Any] | None:
    """Returns a JSON-RPC response, or None."""
    message = _parse(text)
    if isinstance(message, dict) and "method" not in message:
        if isinstance(message.get("error"), dict) or "result" in message:
            return message
    return None


def _note_wait(data: dict[str, Any], retry_after: str) -> None:
    if "retry_after_ms" not in data and retry_after.isascii() and retry_after.isdigit():
        data["retry_after_ms"] = int(retry_after) * 1000


async def _read_all(response: Any) -> bytes:
    try:
        return await response.aread()
    finally:
        await response.aclose()


def _same(http: Any, response: Any, body: bytes) -> Any:
    # The body is decoded already, and its length may be another.
    headers = [(k, v) for k, v in response.headers.raw if k.lower() not in (b"content-length", b"content-encoding")]
    return http.Response(response.status_code, headers=headers, content=body)


def _answer(http: Any, body: bytes) -> Any:
    return http.Response(200, headers={"Content-Type": "application/json"}, content=body)


def _stream(http: Any, response: Any, lost: bytes) -> Any:
    """Passes an event stream on, each event once it is whole, and ends it with an error
    message when it ends without the call's response. (Half an event, passed on, would
    end the connection of some clients.) A stream whose server named its events may be
    taken up again (MCP 2025-11-25), and ends as it does."""

    class Stream(http.AsyncByteStream):
        async def __aiter__(self):
            events = _Events()
            try:
                async for piece in response.aiter_bytes():
                    if whole := events.take(piece):
                        yield whole
                if events.unended():
                    yield events.take(b"\n\n")
            except (http.TransportError, OSError):
                if events.response or events.named:
                    raise
            if not events.response and not events.named:
                yield b"event: message\ndata: " + lost + b"\n\n"

        async def aclose(self) -> None:
            await response.aclose()

    return Stream()


class _Events:
    """Cuts a stream into events, and looks for the response among them."""

    def __init__(self) -> None:
        self.response = self.named = False
        self._line = b""
        self._event: list[bytes] = []

    def take(self, piece: bytes) -> bytes:
        """Returns the events that are whole with this piece."""
        *lines, self._line = (self._line + piece).split(b"\n")
        whole = b""
        for line in lines:
            self._event.append(line + b"\n")
            if not line.removesuffix(b"\r"):
                self._read()
                whole += b"".join(self._event)
                self._event = []
        return whole

    def unended(self) -> bool:
        """Says whether the last event lacks its blank line, as it may at the end."""
        return bool(self._line or self._event)

    def _read(self) -> None:
        data = []
        for line in self._event:
            name, _, value = line.rstrip(b"\r\n").partition(b":")
            if name == b"data":
                data.append(value.removeprefix(b" "))
            elif name == b"id" and value.strip():
                self.named = True
        self.response = self.response or _message(b"\n".join(data)) is not None
