"""What a person is told of a batch before anything of it is submitted, and asked when it is larger than most."""

from __future__ import annotations

from dataclasses import replace

from transport.errors import NotFound

from ..batch.plan import Planned
from ..client import Muster
from ..errors import BadInput
from ..settings import Settings
from .console import early, interactive, note
from .interrupt import read_line
from .places import latest_of

NO_LIMIT = 1_000_000  # while they are counted; a person says whether that is what was meant


async def agreed_on(plan: Planned, settings: Settings, *, may_ask: bool, yes: bool) -> Planned:
    """The batch as it may be run. Ten thousand shards may be a mistake in a glob: a person, `--yes` or the file itself
    (`limits.max_shards`) says that they are none. `BadInput` when nobody does.
    """
    limits = plan.spec.limits
    if "max_shards" in limits.model_fields_set or plan.spec.shards.command is not None:
        await plan.preview(settings)
        return plan
    unlimited = _with_limit(plan, NO_LIMIT)
    count = (await unlimited.preview(settings)).count
    if count <= limits.max_shards:
        return plan
    if not yes and not (may_ask and interactive() and await _says_yes(count)):
        hint = "see them with: muster batch preview FILE; if they are meant, run it with --yes, or set max_shards"
        raise BadInput(f"{plan.file} makes {count} shards, more than {limits.max_shards}", hint=hint)
    return _with_limit(plan, count)


async def tell_difference(muster: Muster, plan: Planned, settings: Settings) -> None:
    """What is new since the file's last run; nothing is said of a first one, or when nothing has changed."""
    earlier = latest_of(settings, plan.file)
    if earlier is None or plan.spec.shards.command is not None:
        return
    try:
        found = await muster.batches.difference(plan, earlier)
    except NotFound:
        return
    if found.spec or found.new or found.changed or found.gone:
        note(f"since the last run of {plan.file}: {found.counts}")
        for line in found.spec[2:]:  # without the names of the two sides
            note(f"  {line}")


def _with_limit(plan: Planned, max_shards: int) -> Planned:
    limits = plan.spec.limits.model_copy(update={"max_shards": max_shards})
    return replace(plan, spec=plan.spec.model_copy(update={"limits": limits}))


async def _says_yes(count: int) -> bool:
    early(f"it makes {count} shards, each a task of its own. go on? [y/N]", end=" ")
    return (await read_line()).strip().lower() in ("y", "yes")
