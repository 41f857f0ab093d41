"""The command line."""

from counterrank.cli.main import app as app
from counterrank.cli.main import main

__all__ = ["main"]
