"""How a person goes on with patches that did not land. Pure: from the report alone."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from .report import RepositoryReport, ShardReport

MAX_COMMANDS = 20  # of a repository; the others go the same way


def by_hand(repository: RepositoryReport, branch: str) -> Iterator[tuple[str, str]]:
    """What is left and why, with the command that puts it between conflict markers on top of what landed."""
    collided = {collision.key: collision for collision in repository.collisions}
    left = [shard for shard in repository.shards if shard.outcome == "collision" or shard.evidence is not None]
    for shard in left[:MAX_COMMANDS]:
        collision = collided.get(shard.key)
        if collision is None:
            why = f"{shard.key}: the gate fails with it"
        else:
            others = ", ".join(collision.with_keys) or "the base"
            why = f"{shard.key} with {others} in {', '.join(collision.paths)}"
        yield why, _command(shard, branch)


def _command(shard: ShardReport, branch: str) -> str:
    switch = f"git switch {shlex.quote(branch)} && " if branch else ""
    return f"{switch}muster task diff {shard.task_id} | git apply --3way"
