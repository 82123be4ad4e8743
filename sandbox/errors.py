"""What can go wrong with a sandbox.

SandboxError
├── EngineUnavailable   nobody answers, or who answers refuses us
├── ImageMissing        the engine does not have the image
├── ImageBuildFailed    the image could not be made
├── ImageUnfit          what the image lacks to be a sandbox
├── DiskFull            this host has no room for another
├── Unsupported         this host cannot do it, now or later
├── SandboxLost         the container is gone, or talks nonsense and was killed
├── LimitExceeded       a limit of the sandbox stands in the way
├── PathError           a path inside is missing, of the wrong kind, or not allowed
└── SetupFailed         a setup command ended with an error
"""

from __future__ import annotations


class SandboxError(Exception):
    """One sentence that says what happened; `hint` says what to try, and may be empty."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class EngineUnavailable(SandboxError): ...


class ImageMissing(SandboxError): ...


class ImageBuildFailed(SandboxError): ...


class ImageUnfit(SandboxError): ...


class DiskFull(SandboxError): ...


class Unsupported(SandboxError): ...


class SandboxLost(SandboxError): ...


class LimitExceeded(SandboxError): ...


class PathError(SandboxError): ...


class SetupFailed(SandboxError):
    """`output` is the tail of what the failing command printed."""

    def __init__(self, message: str, *, output: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.output = output
