"""Just enough of the Responses API, on loopback, for the real `codex` to talk to."""

from e2e.fake_api import FakeApi, encoded

COUNTERS = ("input", "output", "cache_write_5m", "cache_read")


class FakeResponses(FakeApi):
    """A server that also knows the true usage: *spent* has the counters of every response.

    No two responses cost the same, so that one that is missing or counted twice shows in a sum.
    *answer* gives the items of a response: calls or messages, see `call` and `message`.
    """

    path = "/responses"

    def __init__(self):
        super().__init__()
        self.spent = []

    def respond(self, asked):
        with self._counting:
            self.requests.append(asked)
            number = len(self.requests)
            usage = {
                "input_tokens": 1000 + 3**number % 997,
                "input_tokens_details": {"cached_tokens": 400 + number, "cache_write_tokens": 50},
                "output_tokens": 20 + number,
                "output_tokens_details": {"reasoning_tokens": 5},
            }
            usage["total_tokens"] = usage["input_tokens"] + usage["output_tokens"]
            self.spent.append((asked, usage))
        items = self.answer(asked) or [message(f"fake answer {number}")]
        response = {"id": f"resp_fake{number:04d}"}
        for place, item in enumerate(items):
            item.setdefault("id", f"item_{number}_{place}")
        done = [{"type": "response.output_item.done", "item": item} for item in items]
        return [
            encoded(event)
            for event in (
                {"type": "response.created", "response": response},
                *done,
                {"type": "response.completed", "response": response | {"usage": usage}},
            )
        ]


def message(text):
    """Give an answer in words."""
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content}
