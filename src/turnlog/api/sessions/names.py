"""Names of models, tools and projects, and hints for unknown ones."""

from __future__ import annotations

from turnlog.catalog.names import (
    models_used,
    no_such_model,
    no_such_tool,
    short_model,
    shown_name,
    tools_named,
)

__all__ = [
    "models_used",
    "no_such_model",
    "no_such_tool",
    "short_model",
    "shown_name",
    "tools_named",
]
