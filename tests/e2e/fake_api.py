"""Just enough of the Messages API, on loopback, for the real `claude` to talk to.

It answers every prompt with one line of text and keeps what it was sent, so that a test can see
how much of a session's history arrived.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USAGE = {
    "input_tokens": 7,
    "output_tokens": 3,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}


class FakeApi:
    """A server that lives as long as its ``with`` block."""

    def __init__(self):
        self.requests = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_words):
                pass

            def do_GET(self):
                self._send(b"{}", "application/json")

            do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for.

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                is_message = self.path.partition("?")[0].endswith("/v1/messages")
                asked = json.loads(body) if is_message else {}
                if not is_message:
                    self._send(b'{"input_tokens": 1}', "application/json")
                    return
                api.requests.append(asked["messages"])
                self._send(api.stream(asked["model"]), "text/event-stream")

            def _send(self, body, kind):
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def stream(self, model):
        number = len(self.requests)
        message = {
            "id": f"msg_fake{number:04d}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": USAGE,
        }
        text = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": f"fake answer {number}"}
        events = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": text},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": 3},
            },
            {"type": "message_stop"},
        ]
        return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode()

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error):
        self._server.shutdown()
        self._server.server_close()
