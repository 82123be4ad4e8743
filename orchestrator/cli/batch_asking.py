"""What a person is told of a batch before anything of it is submitted, and asked when it is larger than most."""

from __future__ import annotations

from ..batch.difference import Difference
from ..batch.plan import Planned
from ..client import Muster
from ..errors import BadInput
from ..settings import Settings
from .batch_file import known_run, limited, unlimited
from .batch_life import difference_lines
from .console import early, interactive, note
from .interrupt import read_line
from .summary import print_lines


async def agreed_on(plan: Planned, settings: Settings, *, may_ask: bool, yes: bool) -> Planned:
    """The batch as it may be run. Ten thousand shards may be a mistake in a glob: a person, `--yes` or the file itself
    (`limits.max_shards`) says that they are none. `BadInput` when nobody does.
    """
    limits = plan.spec.limits
    if "max_shards" in limits.model_fields_set or plan.spec.shards.command is not None:
        await plan.preview(settings)
        return plan
    count = (await unlimited(plan).preview(settings)).count
    if count <= limits.max_shards:
        return plan
    if not yes and not (may_ask and interactive() and await _says_yes(count)):
        hint = "see them with: muster batch preview FILE; if they are meant, run it with --yes, or set max_shards"
        raise BadInput(f"{plan.file} makes {count} shards, more than {limits.max_shards}", hint=hint)
    return limited(plan, count)


async def tell_difference(muster: Muster, plan: Planned) -> Difference | None:
    """What it would do that the file's last run has not done; None of a first one, and where only a run tells that."""
    earlier = await known_run(muster, plan.file)
    if earlier is None or plan.spec.shards.command is not None:
        return None
    found = await muster.batches.difference(plan, earlier)
    if found.spec or found.runs or found.gone:
        note(f"since the last run of {plan.file}: {found.counts}")
        for line in found.spec[2:]:  # without the names of the two sides
            note(f"  {line}")
        print_lines(difference_lines(found.model_copy(update={"new": (), "gone": ()})))
    return found


async def _says_yes(count: int) -> bool:
    early(f"it makes {count} shards, each a task of its own. go on? [y/N]", end=" ")
    return (await read_line()).strip().lower() in ("y", "yes")
