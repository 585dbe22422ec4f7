"""Schedules: the rules of their slots, what is due, and what that makes."""
