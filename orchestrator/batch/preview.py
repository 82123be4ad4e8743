"""What a batch would do, from its file and the repositories alone: nothing is submitted, no fleet is needed."""

from __future__ import annotations

from collections.abc import Mapping

from envelope.wire import Wire

from .measured import Outlook
from .shards import Found, Shard, refuse_empty
from .spec import BatchSpec, Publish
from .starts import Start
from .survey import survey


class RepositoryPreview(Wire):
    """`shards` are keys, sorted. `base` is the commit that it would start from. `goes_to`: the remote's address, or why
    nobody knows it; empty for what stays here."""

    name: str
    base: str
    shards: tuple[str, ...]
    goes_to: str = ""


class BatchPreview(Wire):
    """`max_cost_microusd` is for all shards together, and 0 where no model is asked. `known` is false where only a run
    tells the shards, by a command in a sandbox. `publish`: all that the document says of it. `max_gate_runs`: to find
    who makes the gate fail. `reused`: how many shards the last run has done. `outlook`: what the rest will about take.
    `warnings`: what would stop it, sentence by sentence.
    """

    name: str
    repositories: tuple[RepositoryPreview, ...]
    steps: tuple[str, ...]
    gate: tuple[str, ...]
    branch: str
    max_cost_microusd: int
    known: bool = True
    publish: Publish | None = None
    max_gate_runs: int = 0
    reused: int = 0
    outlook: Outlook = Outlook()
    warnings: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return sum(len(repository.shards) for repository in self.repositories)

    @property
    def runs(self) -> int:
        return self.count - self.reused

    @property
    def share_microusd(self) -> int:
        """What each shard may spend before others leave it more."""
        return self.max_cost_microusd // max(1, self.count)


async def preview(
    spec: BatchSpec,
    starts: Mapping[str, Start],
    *,
    found: Mapping[str, Found] | None = None,
    default_budget_microusd: int,
) -> BatchPreview:
    """`BadInput` for what `batch run` would refuse: a glob that matches nothing, too many shards."""
    known = spec.shards.command is None
    shards = await all_shards(spec, starts, found=found) if known else {}
    return BatchPreview(
        name=spec.name,
        repositories=tuple(
            RepositoryPreview(name=name, base=start.base, shards=tuple(each.key for each in shards.get(name, ())))
            for name, start in starts.items()
        ),
        steps=tuple(step.title for step in spec.steps),
        gate=spec.gate.commands if spec.gate else (),
        branch=spec.publish.branch if spec.publish else "",
        max_cost_microusd=spec.limits.budget_microusd(default_budget_microusd) if spec.asks_a_model else 0,
        known=known,
        publish=spec.publish,
        max_gate_runs=spec.merge.max_gate_runs if spec.gate and spec.merge.gate != "end" else 0,
    )


async def all_shards(
    spec: BatchSpec, starts: Mapping[str, Start], *, found: Mapping[str, Found] | None = None
) -> dict[str, list[Shard]]:
    """By repository, in the order of the file."""
    shards: dict[str, list[Shard]] = {}
    left = spec.limits.max_shards
    for name, start in starts.items():
        chosen = None if found is None else found.get(name, {})
        shards[name] = await survey(
            spec, name=name, git_dir=start.git_dir, base=start.base, max_shards=left, found=chosen
        )
        left -= len(shards[name])
    refuse_empty(spec.shards, {shard.key for some in shards.values() for shard in some})
    return shards
