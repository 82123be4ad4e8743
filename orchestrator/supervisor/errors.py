"""What can go wrong with the fleet of this machine.

OrchestratorError
└── FleetError
    ├── StartFailed      a part of the fleet refused to start; carries that part's exit code
    └── AlreadyRuns      another supervisor owns this state folder
"""

from __future__ import annotations

from envelope.errors import ExitCode

from ..errors import OrchestratorError


class FleetError(OrchestratorError): ...


class StartFailed(FleetError):
    def __init__(self, message: str, *, hint: str = "", exit_code: ExitCode = ExitCode.INFRASTRUCTURE) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


class AlreadyRuns(FleetError): ...
