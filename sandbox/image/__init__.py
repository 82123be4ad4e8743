"""The image that sandboxes start from when a task names no other."""

from __future__ import annotations

DEFAULT_IMAGE = "muster-sandbox:latest"
