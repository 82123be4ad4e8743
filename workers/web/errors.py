"""Why nothing was fetched."""

from __future__ import annotations


class WebError(Exception):
    """In words for the model: what went wrong, and what would work."""


class Unreached(WebError):
    """No connection came about."""
