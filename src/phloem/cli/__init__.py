"""Flags → pipeline, one small module a command."""
