"""Conversations, reports and tables as Markdown, HTML, JSON, CSV and Parquet."""
