"""An official Python client, 1.x or 2.x, does what it is told and says what it saw.

usage: ask.py < QUESTIONS

QUESTIONS is one JSON object: {"url": URL, "calls": [{"tool", "arguments", "key", "patience", "pause"}, ...]};
a key goes on in a header of its call's requests, patience is after how many seconds the client's own timeout ends the call, pause
how many it waits before. Prints one JSON object:
{"capabilities": {...}, "tools": {name: input schema}, "calls": [{"kind", "text",
"code", "data", "structured"}, ...]}. kind is "result", "tool_error" (a result that says
isError), "error" (an error that carries a JSON-RPC code), "exception", "timeout" or
"connection_lost", after which the next call has a connection of its own.
"""

import asyncio
import importlib.metadata
import json
import sys
from contextlib import asynccontextmanager
from datetime import timedelta

PATIENCE = 30  # seconds for one call
OWN_TIMEOUT = (408, -32001)  # by which the two generations say so
GENERATION = int(importlib.metadata.version("mcp").split(".")[0])
CURRENT = {"key": None}


async def send_key(request):
    if CURRENT["key"] is not None:
        request.headers["Idempotency-Key"] = CURRENT["key"]


@asynccontextmanager
async def first_generation(url):
    import httpx
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async with httpx.AsyncClient(event_hooks={"request": [send_key]}, timeout=PATIENCE) as http:
        async with streamable_http_client(url, http_client=http) as (read, write, _):
            async with ClientSession(read, write) as session:
                hello = await session.initialize()
                yield session, hello.capabilities


@asynccontextmanager
async def second_generation(url):
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with httpx2.AsyncClient(event_hooks={"request": [send_key]}, timeout=PATIENCE) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            yield client, client.server_capabilities


def attribute(thing, *names):
    for name in names:
        if hasattr(thing, name):
            return getattr(thing, name)
    return None


async def call(session, question):
    await asyncio.sleep(question.get("pause", 0))
    CURRENT["key"] = question.get("key")
    own = {}
    if patience := question.get("patience"):
        own["read_timeout_seconds"] = timedelta(seconds=patience) if GENERATION == 1 else patience
    try:
        result = await asyncio.wait_for(session.call_tool(question["tool"], question["arguments"], **own), PATIENCE)
    except TimeoutError:
        return {"kind": "timeout"}
    except Exception as fault:  # whatever an agent's host would be shown
        error = getattr(fault, "error", None)
        if own and error is not None and error.code in OWN_TIMEOUT:
            return {"kind": "timeout"}
        if error is None:
            return {"kind": "exception", "text": f"{type(fault).__name__}: {fault}"}
        return {"kind": "error", "text": error.message, "code": error.code, "data": error.data}
    finally:
        CURRENT["key"] = None
    failed = attribute(result, "isError", "is_error")
    return {
        "kind": "tool_error" if failed else "result",
        "text": "".join(part.text for part in result.content if part.type == "text"),
        "data": (result.meta or {}).get("callonce.dev/refusal"),
        "structured": attribute(result, "structuredContent", "structured_content"),
    }


def first_cause(fault):
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return fault


async def main(questions) -> None:
    connect = first_generation if GENERATION == 1 else second_generation
    answers = {"calls": []}
    while True:
        try:
            async with connect(questions["url"]) as (session, capabilities):
                listed = await session.list_tools()
                answers["capabilities"] = capabilities.model_dump(mode="json", by_alias=True, exclude_none=True)
                answers["tools"] = {t.name: attribute(t, "inputSchema", "input_schema") for t in listed.tools}
                for question in questions["calls"][len(answers["calls"]) :]:
                    answers["calls"].append(await call(session, question))
            break
        except* Exception as lost:
            if "tools" not in answers:
                raise
            cause = first_cause(lost)
            answers["calls"].append({"kind": "connection_lost", "text": f"{type(cause).__name__}: {cause}"})
        if len(answers["calls"]) == len(questions["calls"]):
            break
    print(json.dumps(answers))


if __name__ == "__main__":
    asyncio.run(main(json.load(sys.stdin)))
