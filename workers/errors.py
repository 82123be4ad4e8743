"""What can go wrong in a worker before or around the agent loop.

MusterError
└── WorkerError
    ├── BadAgent        an agent's file that says something we do not understand
    ├── BadInput        a request that this worker cannot serve
    ├── BadScript       a scripted model's file that is wrong, or has no answer to a request
    ├── BadSettings     a user's file that is wrong
    └── NoModel         nobody said which model answers
"""

from __future__ import annotations

from envelope.errors import ErrorCode, MusterError


class WorkerError(MusterError): ...


class BadAgent(WorkerError, ValueError):
    code = ErrorCode.BAD_INPUT

    def __init__(self, message: str, *, hint: str = "", key: str = "") -> None:
        super().__init__(message, hint=hint)
        self.key = key  # of the front matter, as it is written there; empty: it is not about one


class BadInput(WorkerError):
    code = ErrorCode.BAD_INPUT


class BadScript(WorkerError): ...


class BadSettings(WorkerError):
    code = ErrorCode.BAD_INPUT


class NoModel(WorkerError):
    code = ErrorCode.MODEL_UNKNOWN
