"""The command line."""

from counterrank.cli.main import app, main

__all__ = ["app", "main"]
