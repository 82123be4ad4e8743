"""Checks of what a tenant can be given."""

from __future__ import annotations

from transport.base import Allotment

from .budgets import checked_tenant
from .errors import BadInput

# At a weight of a million a start would cost a flow no virtual time at all: it would be served for ever.
WEIGHTS = (0.001, 1000)


def checked_allotment(tenant: str, allotment: Allotment) -> tuple[str, Allotment]:
    """The same, or `BadInput`: a weight is divided by, and a name is part of the keys of its flows."""
    checked_tenant(tenant)
    least, most = WEIGHTS
    if not least <= allotment.weight <= most:
        hint = f"1 is everybody's, 2 is twice as much; from {least} to {most}"
        raise BadInput(f"a weight of {allotment.weight} is no share", hint=hint)
    if allotment.max_running is not None and allotment.max_running < 0:
        raise BadInput("fewer than no tasks cannot run", hint="0 starts none, None is no cap")
    for name, most in (("max_queued", allotment.max_queued), ("max_tree", allotment.max_tree)):
        if most is not None and most < 0:
            raise BadInput(
                f"{name} of {most} is no number of tasks", hint="0 takes none; without it, it is as for everybody"
            )
    return tenant, allotment
