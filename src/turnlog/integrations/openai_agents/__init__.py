"""Session memory for the OpenAI Agents SDK: ``TurnlogSession``."""

from __future__ import annotations

from turnlog.integrations.openai_agents.session import TurnlogSession

__all__ = ["TurnlogSession"]
