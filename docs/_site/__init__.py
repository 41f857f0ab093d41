"""What the documentation site is generated with; `docs/conf.py` loads it."""
