"""What would stop a batch that can be run as it stands, for a person who looks at it before. Pure but for tokens, which
are looked at where the settings say that they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from envelope.agents import WorkerCard

from ..catalogue import agents_of
from ..errors import BadInput
from ..publication.settings import ForgeSettings
from .spec import BatchSpec


def without_model(spec: BatchSpec, cards: Iterable[WorkerCard], *, model: str) -> Iterator[str]:
    """`model`: what the settings name for tasks that name none."""
    cards = list(cards)
    if not spec.asks_a_model or model or any(card.model for card in cards):
        return
    agents = agents_of(cards)
    asked = {step.agent for step in spec.steps if step.agent} or {"resolve"}
    if lacking := sorted(name for name in asked if name not in agents or not agents[name].model):
        yield f"no model is configured, and {' and '.join(lacking)} will ask one: set MUSTER_MODEL and its key"


def without_token(names: Iterable[str], forges: Mapping[str, ForgeSettings]) -> Iterator[str]:
    """Where the token should be is the operator's business: over HTTP strangers read this."""
    for name in sorted(set(names) & forges.keys()):
        try:
            forges[name].api_headers()
        except BadInput:
            yield f"the forge {name!r} has no token here: put one where [forges.{name}] says that it is"
