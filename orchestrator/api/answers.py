"""Answers that are too large to be looked at twice."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Response


def told_at_once(value: Any) -> Response:
    """Values that are JSON already, as they are: the framework's look at each field of 1,000 tasks takes 0.1 s."""
    return Response(json.dumps(value, separators=(",", ":")), media_type="application/json")
