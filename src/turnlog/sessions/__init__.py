"""One session: the tree of its records, its threads, turns and agents; and writing one."""

from __future__ import annotations

from turnlog.sessions import build as build
