"""What can go wrong with a forge.

BadInput / OrchestratorError
├── NotPublished    what a command ends with, once all that could be published is
├── ForgeRefused    it says no: whose turn it is, the hint says
├── ForgeUnsure     nobody knows whether it did what it was asked: look before asking again
├── ForgeDown       it does not answer, or with nonsense, however often it is asked
└── ForgeLimits     it wants to be left alone for longer than anybody waits here
"""

from __future__ import annotations

from envelope.errors import ErrorCode, ExitCode

from ..errors import BadInput, OrchestratorError


class NotPublished(OrchestratorError):
    def __init__(self, message: str, *, hint: str = "", exit_code: ExitCode) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


class ForgeRefused(BadInput):
    """`status` is HTTP's, for those who know what it means at one place."""

    def __init__(self, message: str, *, hint: str = "", status: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = ErrorCode.REFUSED if status == 403 else ErrorCode.BAD_INPUT


class ForgeDown(OrchestratorError): ...


class ForgeUnsure(ForgeDown): ...


class ForgeLimits(OrchestratorError):
    """`until_s`: when it may be asked again, in seconds since 1970."""

    def __init__(self, message: str, *, hint: str = "", until_s: float) -> None:
        super().__init__(message, hint=hint)
        self.until_s = until_s
