"""The official Python client makes one call twice under one key.

usage: client.py URL KEY CUSTOMER

Prints what it saw as one JSON object: {"tools": [name, ...], "charges": [id, id],
"replayed": [bool, bool]}.
"""

import asyncio
import json
import sys

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client


async def main(url: str, key: str, customer: str) -> None:
    replayed = []

    async def send_key(request: httpx.Request) -> None:
        request.headers["Idempotency-Key"] = key

    async def note(response: httpx.Response) -> None:
        body = response.request.content if response.request.method == "POST" else b""
        if b'"tools/call"' in body:
            replayed.append(response.headers.get("Idempotency-Replayed") == "true")

    hooks = {"request": [send_key], "response": [note]}
    async with httpx.AsyncClient(event_hooks=hooks, timeout=30) as http:
        async with streamable_http_client(url, http_client=http) as (read, write, _):
            async with ClientSession(read, write) as session:
                await session.initialize()
                tools = await session.list_tools()
                charges = []
                for _ in range(2):
                    result = await session.call_tool("charge", {"customer": customer, "amount_cents": 1200})
                    if result.isError:
                        raise SystemExit(f"charge: want a result, got the error {result.content}")
                    charges.append(result.structuredContent["charge_id"])
    print(json.dumps({"tools": [t.name for t in tools.tools], "charges": charges, "replayed": replayed}))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    asyncio.run(main(*sys.argv[1:]))
