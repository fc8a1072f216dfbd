"""Models that answer what they were told to: one inside the program, one behind a port."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agents import ModelResponse, Usage
from agents.models.interface import Model
from openai.types.responses import Response
from openai.types.responses.response_usage import InputTokensDetails


def message(text: str) -> dict[str, Any]:
    # The id that the SDK itself gives to all messages of providers that give none.
    return {
        "id": "__fake_id__",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def thought(text: str) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}]
    return {"id": "rs_1", "type": "reasoning", "summary": summary}


def call(name: str, call_id: str, **asked: str) -> dict[str, Any]:
    return {
        "id": f"fc_{call_id}",
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": json.dumps(asked),
    }


def response(number: int, output: list[dict[str, Any]]) -> dict[str, Any]:
    """What the Responses API says, as far as anybody reads it."""
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_790_000_000 + number,
        "model": "gpt-5",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 1000,
            "input_tokens_details": {"cached_tokens": 400, "cache_write_tokens": 0},
            "output_tokens": 100,
            "output_tokens_details": {"reasoning_tokens": 60},
            "total_tokens": 1100,
        },
    }


class FakeModel(Model):
    """Gives one output after the other, and notes what it was asked."""

    def __init__(
        self, *outputs: list[dict[str, Any]], model: str | None = "gpt-5", first: int = 1
    ) -> None:
        self.asked: list[Any] = []
        self._outputs = dict(enumerate(outputs, first))
        if model is not None:
            self.model = model

    async def get_response(self, *_: Any, input: Any, **__: Any) -> Any:  # noqa: A002
        self.asked.append(input)
        number = min(self._outputs)
        made = Response.model_validate(response(number, self._outputs.pop(number)))
        details = InputTokensDetails.model_validate({"cached_tokens": 400, "cache_write_tokens": 0})
        usage = Usage(
            requests=1,
            input_tokens=1000,
            input_tokens_details=details,
            output_tokens=100,
            total_tokens=1100,
        )
        return ModelResponse(output=made.output, usage=usage, response_id=made.id)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


@contextmanager
def provider(*outputs: list[dict[str, Any]]) -> Iterator[str]:
    """Serve the Responses API on loopback; give its address."""
    waiting = [response(number, output) for number, output in enumerate(outputs, 1)]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps(waiting.pop(0)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
