"""Making logs smaller without changing any view of the session."""
