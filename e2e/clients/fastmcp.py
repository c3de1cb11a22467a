"""A FastMCP server (the official Python SDK) whose one tool counts how often it ran.

Usage: fastmcp.py HOST PORT
"""
import sys

from mcp.server.fastmcp import FastMCP
from starlette.responses import PlainTextResponse

runs = 0
server = FastMCP("fastmcp", host=sys.argv[1], port=int(sys.argv[2]), stateless_http=True, json_response=True, log_level="ERROR")


@server.tool()
def charge(note: str = "", idempotency_key: str = "") -> str:
    global runs
    runs += 1
    return f"run {runs}"


@server.custom_route("/runs", methods=["GET"])
async def count(_request):
    return PlainTextResponse(str(runs))


server.run(transport="streamable-http")
