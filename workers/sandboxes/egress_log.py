"""What becomes of each request that leaves a sandbox: for the operator's log, and refusals for the task's events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from envelope.events import WarningRaised
from envelope.logs import get_logger
from sandbox.outlet import Decision

MAX_LOGGED = 1000  # of one attempt: a loop inside must not fill the operator's disk
MAX_TOLD = 20  # refusals that people are told of, each place once

log = get_logger("egress")


@dataclass
class EgressLog:
    task_id: str
    report: Callable[[WarningRaised], None]
    _logged: int = 0
    _told: set[str] = field(default_factory=set[str])

    def tell(self, decision: Decision) -> None:
        """Log a decision, and warn the task once of each place that it may not reach; both are bounded."""
        self._logged += 1
        if self._logged <= MAX_LOGGED:
            self._log(decision)
        if self._logged == MAX_LOGGED:
            log.warning("egress_log_full", task_id=self.task_id, logged=MAX_LOGGED)
        place = f"{decision.host}:{decision.port}"
        if decision.why_not and place not in self._told and len(self._told) < MAX_TOLD:
            self._told.add(place)
            hint = f"if it may: grant network:{decision.host}" if decision.host else ""
            self.report(WarningRaised(message=f"the sandbox asked for the network: {decision.why_not}", hint=hint))

    def _log(self, decision: Decision) -> None:
        place = {"task_id": self.task_id, "host": decision.host, "port": decision.port}
        if decision.why_not:
            log.info("egress_refused", **place, why=decision.why_not)
        elif decision.credential:  # under a name that redaction leaves alone
            log.info("egress_allowed", **place, used=decision.credential, request=decision.request)
        else:
            log.info("egress_allowed", **place)
