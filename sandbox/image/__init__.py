"""The images that sandboxes start from when a task names no other."""

from __future__ import annotations

DEFAULT_IMAGE = "muster-sandbox:latest"
CC_IMAGE = "muster-sandbox:cc"  # with a C and C++ compiler
OWN_IMAGES = (DEFAULT_IMAGE, CC_IMAGE)
