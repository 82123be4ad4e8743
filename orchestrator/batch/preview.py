"""What a batch would do, from its file and the repositories alone: nothing is submitted, no fleet is needed."""

from __future__ import annotations

from collections.abc import Mapping

from envelope.wire import Wire
from repo.local import LocalRepository

from .shards import Shard, refuse_empty
from .spec import BatchSpec
from .survey import survey


class RepositoryPreview(Wire):
    """`shards` are keys, sorted. `base` is the commit that it would start from."""

    name: str
    base: str
    shards: tuple[str, ...]


class BatchPreview(Wire):
    """`max_cost_microusd` is for all shards together, and 0 where no model is asked."""

    name: str
    repositories: tuple[RepositoryPreview, ...]
    steps: tuple[str, ...]
    gate: tuple[str, ...]
    branch: str
    max_cost_microusd: int

    @property
    def count(self) -> int:
        return sum(len(repository.shards) for repository in self.repositories)

    @property
    def share_microusd(self) -> int:
        """What one shard may cost at most."""
        return self.max_cost_microusd // max(1, self.count)


async def preview(
    spec: BatchSpec, repositories: Mapping[str, LocalRepository], *, default_budget_microusd: int
) -> BatchPreview:
    """`BadInput` for what `batch run` would refuse: a glob that matches nothing, too many shards."""
    found: list[RepositoryPreview] = []
    every: list[Shard] = []
    for name, local in repositories.items():
        left = spec.limits.max_shards - len(every)
        shards = await survey(spec, name=name, git_dir=local.git_dir, base=local.head, max_shards=left)
        every += shards
        found.append(RepositoryPreview(name=name, base=local.head, shards=tuple(shard.key for shard in shards)))
    refuse_empty(spec.shards, every)
    asks_a_model = any(step.agent is not None for step in spec.steps)
    return BatchPreview(
        name=spec.name,
        repositories=tuple(found),
        steps=tuple(step.title for step in spec.steps),
        gate=spec.gate.commands if spec.gate else (),
        branch=spec.publish.branch if spec.publish else "",
        max_cost_microusd=spec.limits.budget_microusd(default_budget_microusd) if asks_a_model else 0,
    )
