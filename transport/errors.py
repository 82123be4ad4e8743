"""Errors of a transport.

TransportError
├── Unreachable      no server answers (a retry may help)
│   ├── BlobsUnreachable  the store of large blobs does not; the queue itself may be well
│   └── Unconfirmed  it was done, but too few replicas know (`Limits.wait_replicas`); again is safe
├── Misconfigured    a server that must not be trusted with work, or that does not trust us
│   └── NotPermitted a command that our user's role does not have
├── Refused          a submission that breaks a rule; names the field
│   └── Busy         its session is under way already; `holder` is the task that runs it
├── QueueFull        back-pressure of the server, or of a session; `retry_after_s` says when to come again
├── AllowanceSpent   a tenant has stored as much as it may; `retry_after_s` says when there is room again
├── NotFound         no such task, trace or blob
└── Fenced           a write under a lease that was lost: stop the task, it belongs to another
"""

from __future__ import annotations

from envelope.errors import MusterError


class TransportError(MusterError): ...


class Unreachable(TransportError): ...


class BlobsUnreachable(Unreachable): ...


class Unconfirmed(Unreachable):
    def __init__(self, wanted: int, replicas: int) -> None:
        super().__init__(
            f"only {replicas} of {wanted} replicas have confirmed it, and a failover may forget it",
            hint="do it again, under the same idempotency key; look at the replicas if it stays so",
        )


class Misconfigured(TransportError): ...


class NotPermitted(Misconfigured): ...


class Refused(TransportError):
    def __init__(self, field: str, message: str, *, hint: str = "") -> None:
        super().__init__(f"{field}: {message}", hint=hint)
        self.field = field


class Busy(Refused):
    def __init__(self, session_id: str, holder: str) -> None:
        super().__init__(
            "resume_token", f"the session {session_id} is under way in task {holder}", hint="prompt it, or wait for it"
        )
        self.holder = holder


class QueueFull(TransportError):
    def __init__(self, message: str, *, retry_after_s: float, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class AllowanceSpent(TransportError):
    def __init__(self, message: str, *, retry_after_s: float, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class NotFound(TransportError): ...


class Fenced(TransportError): ...


def inbox_full(session_id: str) -> QueueFull:
    return QueueFull(
        f"the session {session_id} has as many prompts as it takes, which nobody has heard yet",
        retry_after_s=10.0,
        hint="come again when its agent has heard them",
    )


def no_session(session_id: str) -> NotFound:
    return NotFound(f"there is no session {session_id}", hint="it has one after its first turn; kept for 7 days")


def no_task(task_id: str) -> NotFound:
    return NotFound(f"there is no task {task_id}", hint="tasks are kept for 7 days after their end, by default")


def no_trace(trace_id: str) -> NotFound:
    return NotFound(f"there is no trace {trace_id}", hint="traces are kept for 7 days after their end, by default")
