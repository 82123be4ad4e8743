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

# How often a batch does a shard, or a run of the gate, before that ends it; one try where nothing is said: the same
# commands on the same files end as they did, a rule stays as it is, and so do a deadline and a limit of turns.
TRIES: Mapping[ErrorCode, int] = {
    # The command may have killed its sandbox, or somebody else did: of a thousand shards on a fleet that loses one
    # sandbox in ten, five times leave none, and one that always kills its own stops soon.
    ErrorCode.SANDBOX: 5,
    # Workers have tried again what a moment later may work; once more, later, perhaps elsewhere. Each try is paid for.
    ErrorCode.MODEL_FAILED: 2,
    ErrorCode.INTERNAL: 2,
    # Once more, if others have left enough.
    ErrorCode.BUDGET: 2,
    # Tasks that share a worker with one that kills it lose their leases, too. Alone with others that are left, later,
    # the innocent come through; who does not has taken as many workers again, and is for a person to look at.
    ErrorCode.POISON: 2,
}
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
