"""What a tool says when it cannot do what it was asked."""

from __future__ import annotations


class ToolError(Exception):
    """A call that cannot be done, in words for the model: it becomes an error result, and the loop goes on."""


class Refused(ToolError, ValueError):
    """What was asked for does not fit what is there."""
