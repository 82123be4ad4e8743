"""Hooks: an operator's own code around what agents do (see `api.py`)."""
