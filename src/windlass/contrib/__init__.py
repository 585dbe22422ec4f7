"""Windlass in web frameworks; each module imports its framework, and nothing else imports it."""
