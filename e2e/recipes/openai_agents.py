"""OpenAI Agents SDK: each call of a tool has the model's call id as its key, within a
run that has a name of its own. The SDK's repeats are then safe, and so is a run that is
taken up again from its saved state, which holds the call ids.

usage: openai_agents.py URL RUN CUSTOMER NOTE

A model that asks for one charge stands in for a real one. Prints what it was told.
"""

import asyncio
import json
import sys

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from agents.mcp import MCPServerStreamableHttp, MCPToolMetaContext
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

KEY = "callonce.dev/idempotency-key"


def server(url: str, run: str) -> MCPServerStreamableHttp:
    def meta(context: MCPToolMetaContext) -> dict[str, str]:
        return {KEY: f"{run}/{context.run_context.tool_call_id}"}

    return MCPServerStreamableHttp(
        params={"url": url}, name="payments", tool_meta_resolver=meta,
        max_retry_attempts=3, retry_backoff_seconds_base=0.5, client_session_timeout_seconds=60,
    )  # fmt: skip


class Script(Model):
    """Asks for one charge, then says what it was told."""

    def __init__(self, arguments):
        self.arguments = arguments

    async def get_response(self, system_instructions, input, *args, **kwargs):
        told = [item["output"] for item in input if isinstance(item, dict) and item.get("type") == "function_call_output"]
        if told:
            text = ResponseOutputText(type="output_text", text=json.dumps(told), annotations=[])
            output = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        else:
            output = ResponseFunctionToolCall(type="function_call", call_id="call_1", name="charge", arguments=json.dumps(self.arguments))
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


async def main(url: str, run: str, customer: str, note: str) -> None:
    async with server(url, run) as payments:
        model = Script({"customer": customer, "amount_cents": 1, "note": note})
        agent = Agent(name="payer", model=model, mcp_servers=[payments])
        result = await Runner.run(agent, "Charge them.", run_config=RunConfig(tracing_disabled=True))
        print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
