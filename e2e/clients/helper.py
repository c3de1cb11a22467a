"""The Python helper makes calls under intents and says what came of them.

usage: helper.py < ORDERS

ORDERS is one JSON object: {"url", "store", "patience", "calls": [{"intent", "tool",
"arguments"}, ...]}; a call without a tool forgets its intent. Prints one JSON object:
{"calls": [{"kind", "text", "replayed", "charge", "refusal"}, ...]}. kind is "result",
"tool_error", "forgotten", the name of the helper's error, or "exception".
"""

import asyncio
import importlib.metadata
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "clients" / "python"))
import callonce  # noqa: E402

FIRST = importlib.metadata.version("mcp").startswith("1.")


@asynccontextmanager
async def connect(url):
    from mcp.client.streamable_http import streamable_http_client

    if FIRST:
        import httpx
        from mcp import ClientSession

        transport = callonce.Transport(httpx.AsyncHTTPTransport())
        async with httpx.AsyncClient(transport=transport, timeout=600) as http:
            async with streamable_http_client(url, http_client=http) as (read, write, _):
                async with ClientSession(read, write) as session:
                    await session.initialize()
                    yield session
    else:
        import httpx2
        from mcp import Client

        transport = callonce.Transport(httpx2.AsyncHTTPTransport())
        async with httpx2.AsyncClient(transport=transport, timeout=600) as http:
            async with Client(streamable_http_client(url, http_client=http)) as client:
                yield client


async def call(caller, order):
    if "tool" not in order:
        caller.forget(order["intent"])
        return {"kind": "forgotten"}
    try:
        result = await caller.call(order["tool"], order["arguments"], intent=order["intent"])
    except callonce.CallonceError as fault:
        refusal = fault.refusal.type if fault.refusal else ""
        return {"kind": type(fault).__name__, "text": str(fault), "refusal": refusal}
    except Exception as fault:
        return {"kind": "exception", "text": f"{type(fault).__name__}: {fault}"}
    failed, structured = (result.isError, result.structuredContent) if FIRST else (result.is_error, result.structured_content)
    return {
        "kind": "tool_error" if failed else "result",
        "text": "".join(part.text for part in result.content if part.type == "text"),
        "replayed": callonce.replayed(result),
        "charge": (structured or {}).get("charge_id", ""),
    }


async def main(orders):
    async with connect(orders["url"]) as session:
        caller = callonce.Caller(session, callonce.FileStore(orders["store"]), patience=orders["patience"])
        print(json.dumps({"calls": [await call(caller, order) for order in orders["calls"]]}))


if __name__ == "__main__":
    asyncio.run(main(json.load(sys.stdin)))
