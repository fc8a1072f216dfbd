"""Full-text search over everything said in the sessions."""
