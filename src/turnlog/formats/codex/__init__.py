"""Codex's homes and rollouts."""
