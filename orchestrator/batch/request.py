"""The request of a batch. Beside `submit`, because only batches need their files' form, which takes long to load."""

from __future__ import annotations

from collections.abc import Sequence

from envelope.asks import AskTerms
from envelope.budget import Budget
from envelope.messages import TaskRequest
from envelope.wire import Wire

from ..settings import Settings
from ..submit import BATCH, DRIVERS, FULL_SCOPE, RepositoryInput, keyed, task_request
from .spec import BatchSpec


class BatchParams(Wire):
    """`input.params` of a batch's driver. `found`: shards by repository and key, where an earlier batch chose them."""

    spec: BatchSpec
    repositories: tuple[RepositoryInput, ...]
    found: dict[str, dict[str, dict[str, str]]] | None = None


def batch_request(
    spec: BatchSpec,
    repositories: Sequence[RepositoryInput],
    *,
    settings: Settings,
    found: dict[str, dict[str, dict[str, str]]] | None = None,
    sender: str = "cli",
    asks: AskTerms | None = AskTerms(),
    tenant: str = "",
    idempotency_key: str = "",
) -> TaskRequest:
    """A batch, of the settings' tenant unless told otherwise.

    The same file on the same commits has the same key, unless the caller has one; `Muster.submit_repeatable` repeats
    a failed one.
    """
    params = BatchParams(spec=spec, repositories=tuple(repositories), found=found)
    limits = spec.limits
    request = task_request(
        agent=BATCH,
        pool=DRIVERS,
        prompt=spec.name,
        params=params.model_dump(mode="json"),
        auth_scope=FULL_SCOPE,
        budget=Budget(
            max_cost_microusd=limits.budget_microusd(settings.budget_microusd), waits_at_cap=asks is not None
        ),
        deadline_ms=limits.deadline_ms(settings.deadline_ms),
        idempotency_key=idempotency_key,
        tenant=tenant or settings.tenant,
        sender=sender,
        asks=asks,
    )
    return request if idempotency_key else keyed(request)
