"""What a transport can refuse.

TransportError
├── Unreachable      no server answers (a retry may help)
├── Misconfigured    a server that must not be trusted with work: it would forget
├── Refused          a submission that breaks a rule; names the field
├── QueueFull        back-pressure; `retry_after_s` says when to come again
├── NotFound         no such task, trace or blob
└── Fenced           a write under a lease that was lost: stop the task, it belongs to another
"""

from __future__ import annotations

from envelope.errors import MusterError


class TransportError(MusterError): ...


class Unreachable(TransportError): ...


class Misconfigured(TransportError): ...


class Refused(TransportError):
    def __init__(self, field: str, message: str, *, hint: str = "") -> None:
        super().__init__(f"{field}: {message}", hint=hint)
        self.field = field


class QueueFull(TransportError):
    def __init__(self, message: str, *, retry_after_s: float, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class NotFound(TransportError): ...


class Fenced(TransportError): ...
