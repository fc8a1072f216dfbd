"""What a run of the OpenAI Agents SDK used, as records that the ledger counts and prices.

The SDK does not tell its sessions what a response used, nor which model gave it; a run's result
does. Each response becomes one record without words. It bears the response's own id where the
provider gives one, so that telling it twice counts once.
"""

from __future__ import annotations

from typing import Any

from turnlog.errors import UsageError
from turnlog.sessions.writing import build
from turnlog.sessions.writing.build import Fields


def usage_records(result: Any, model: str | None = None) -> list[Fields]:
    """Tell what the responses of a run used; *model* is for runs that do not say whose they are."""
    responses = getattr(result, "raw_responses", None)
    if not isinstance(responses, list):
        raise UsageError(
            f"a {type(result).__name__} does not tell what a run used",
            hint="pass what Runner.run gave back",
        )
    agents = {id(item.raw_item): item.agent for item in result.new_items if item.agent is not None}
    return [
        build.assistant(
            [],
            model=model or _model(_agent(response, agents, result)),
            usage=_counted(response.usage),
            message_id=response.response_id,
            request_id=response.request_id,
        )
        for response in responses
        if response.usage is not None and response.usage.total_tokens
    ]


def _agent(response: Any, agents: dict[int, Any], result: Any) -> Any:
    """Tell which agent asked for a response: after a handoff it is another."""
    found = (agents[id(item)] for item in response.output if id(item) in agents)
    return next(found, None) or result.last_agent


def _model(agent: Any) -> str:
    model = agent.model
    if model is None:
        from agents.models import get_default_model  # noqa: PLC0415 - Only if it is in use.

        return get_default_model()
    name = model if isinstance(model, str) else getattr(model, "model", None)
    if not isinstance(name, str):
        raise UsageError(
            f"agent {agent.name} does not say which model answers it",
            hint='name it: store_run_usage(result, model="gpt-5")',
        )
    return name


def _counted(usage: Any) -> dict[str, int]:
    """Count as logs do: what the cache held is no part of the input."""
    details = usage.input_tokens_details
    read = getattr(details, "cached_tokens", 0) or 0
    written = getattr(details, "cache_write_tokens", 0) or 0
    return {
        "input_tokens": max(0, (usage.input_tokens or 0) - read - written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": usage.output_tokens or 0,
    }
