"""Just enough of the Messages API, on loopback, for the real `claude` to talk to.

It keeps what it was sent, so that a test can see how much of a session's history arrived. It
answers with one line of text, or as the test's own ``answer`` tells it: with calls, for example,
which the program then carries out.
"""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USAGE = {
    "input_tokens": 7,
    "output_tokens": 3,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}


class FakeApi:
    """A server that lives as long as its ``with`` block.

    *requests* are the messages of every request, in the order in which they came. *answer* is given
    a request and gives the blocks of the response, or None for a line of text. A response arrives
    event by event, *pause_seconds* apart, as one from afar would.
    """

    path = "/v1/messages"

    def __init__(self):
        self.requests = []
        self.answer = lambda _asked: None
        self.pause_seconds = 0
        self._counting = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def respond(self, asked):
        """Note what was asked; give the events that answer it."""
        with self._counting:  # A session and its agents ask at the same time.
            self.requests.append(asked["messages"])
            number = len(self.requests)
        blocks = self.answer(asked) or [{"type": "text", "text": f"fake answer {number}"}]
        return [encoded(e) for e in _events(f"msg_fake{number:04d}", asked["model"], blocks)]

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error):
        self._server.shutdown()
        self._server.server_close()


def said_since(asked):
    """Give the blocks of a request that came after the model last spoke."""
    blocks = []
    for message in asked["messages"]:
        if message["role"] == "assistant":
            blocks = []
        elif message["role"] == "user":
            blocks += blocks_of(message)
    return blocks


def blocks_of(message):
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _handler_of(api):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_words):
            pass

        def do_GET(self):
            self._send([b"{}"], "application/json")

        do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for.

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.path.partition("?")[0].endswith(api.path):
                self._send(api.respond(json.loads(body)), "text/event-stream")
            else:
                self._send([b'{"input_tokens": 1}'], "application/json")

        def _send(self, parts, kind):
            try:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(sum(map(len, parts))))
                self.end_headers()
                for part in parts:
                    self.wfile.write(part)
                    time.sleep(api.pause_seconds)
            except ConnectionError:  # The program was killed while it listened.
                self.close_connection = True

    return Handler


def _events(message_id, model, blocks):
    """Take a response apart into what a stream carries."""
    message = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": USAGE,
    }
    yield {"type": "message_start", "message": message}
    for index, block in enumerate(blocks):
        hollow, delta = _hollowed(block)
        yield {"type": "content_block_start", "index": index, "content_block": hollow}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    asks = any(block["type"] == "tool_use" for block in blocks)
    end = {"stop_reason": "tool_use" if asks else "end_turn", "stop_sequence": None}
    usage = {"output_tokens": USAGE["output_tokens"]}
    yield {"type": "message_delta", "delta": end, "usage": usage}
    yield {"type": "message_stop"}


def _hollowed(block):
    """Give a block without its content, and the content by itself."""
    if block["type"] == "tool_use":
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        return block | {"input": {}}, delta
    return block | {"text": ""}, {"type": "text_delta", "text": block["text"]}


def encoded(event):
    """Give an event as a stream carries it."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
