"""The page of a session: turns in windows, outline, find, side panel, exports."""

from turnlog.web.pages.session.routes import session_routes

__all__ = ["session_routes"]
