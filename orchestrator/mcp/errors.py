"""What a tool refuses by itself; all else that goes wrong has its words already."""

from __future__ import annotations

from envelope.errors import ErrorCode

from ..errors import BadInput, OrchestratorError


class NotAllowed(OrchestratorError):
    code = ErrorCode.REFUSED


class TooManyWaits(BadInput): ...
