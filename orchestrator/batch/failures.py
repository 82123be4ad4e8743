"""What kinds of failure there are, and what may mend each. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from envelope.errors import ErrorCode


class FailureClass(StrEnum):
    """`task`: the work itself. `infrastructure`: machines, models, Muster. `policy`: a rule or a person said no.
    `budget`: money, time or turns were used up. `poison`: it takes its workers with it."""

    TASK = "task"
    INFRASTRUCTURE = "infrastructure"
    POLICY = "policy"
    BUDGET = "budget"
    POISON = "poison"


_CODES: Mapping[FailureClass, tuple[ErrorCode, ...]] = {
    FailureClass.INFRASTRUCTURE: (
        *(ErrorCode.SANDBOX, ErrorCode.MODEL_FAILED, ErrorCode.MODEL_AUTH, ErrorCode.MODEL_UNKNOWN),
        *(ErrorCode.INTERNAL, ErrorCode.UNKNOWN),
    ),
    FailureClass.POLICY: (ErrorCode.REFUSED, ErrorCode.OUT_OF_SCOPE, ErrorCode.CANCELLED),
    FailureClass.BUDGET: (ErrorCode.BUDGET, ErrorCode.DEADLINE, ErrorCode.TURN_LIMIT),
    FailureClass.POISON: (ErrorCode.POISON,),
}
CLASS_OF: Mapping[str, FailureClass] = {code: kind for kind, codes in _CODES.items() for code in codes}

# Workers have tried again what a moment later may work; a batch tries once more, later, perhaps elsewhere. Who ran out
# of money tries once more if others have left enough. The same commands on the same files end as they did, a rule stays
# as it is, and what kills workers is for a person to look at.
TRIES: Mapping[FailureClass, int] = {
    FailureClass.TASK: 1,
    FailureClass.INFRASTRUCTURE: 2,
    FailureClass.POLICY: 1,
    FailureClass.BUDGET: 2,
    FailureClass.POISON: 1,
}
# Of its budgets these two are as they were, also at a second try.
NO_MORE_TIME = (ErrorCode.DEADLINE, ErrorCode.TURN_LIMIT)
NEXT: Mapping[FailureClass, str] = {
    FailureClass.TASK: "mend the step or the code, then: muster batch retry",
    FailureClass.INFRASTRUCTURE: "see the fleet's state (muster doctor), then: muster batch retry",
    FailureClass.POLICY: "allow it in the batch file, or leave these shards out",
    FailureClass.BUDGET: "raise limits.budget_usd or limits.shard_deadline_s, then: muster batch retry",
    FailureClass.POISON: "look at the dead letter first: muster dlq list",
}


def class_of(code: str) -> FailureClass:
    """Of an error's code; what no other class claims lies in the task."""
    return CLASS_OF.get(code, FailureClass.TASK)
