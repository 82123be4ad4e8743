"""What can go wrong in a worker before or around the agent loop.

MusterError
└── WorkerError
    ├── BadAgent        an agent's file that says something we do not understand
    └── BadScript       a scripted model's file that is wrong, or has no answer to a request
"""

from __future__ import annotations

from envelope.errors import MusterError


class WorkerError(MusterError): ...


class BadAgent(WorkerError): ...


class BadScript(WorkerError): ...


class BadInput(WorkerError): ...


class NoModel(WorkerError): ...
