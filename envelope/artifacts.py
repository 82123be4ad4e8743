"""Where a task leaves files beside its patch. Whoever writes a command for a sandbox needs to know, too."""

from __future__ import annotations

FOLDER = "/tmp/artifacts"  # noqa: S108 - inside the sandbox
