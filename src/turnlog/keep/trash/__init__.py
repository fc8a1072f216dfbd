"""Deleting sessions to the trash, and undeleting them."""
