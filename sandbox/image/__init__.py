"""The images that sandboxes start from when a task names no other."""

from __future__ import annotations

DEFAULT_IMAGE = "muster-sandbox:latest"
CC_IMAGE = "muster-sandbox-cc:latest"  # with compilers for C and C++
OWN_IMAGES = (DEFAULT_IMAGE, CC_IMAGE)
