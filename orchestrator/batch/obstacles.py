"""What would stop a batch that can be run as it stands, for a person who looks at it before. Pure but for tokens, which
are looked at where the settings say that they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from envelope.agents import WorkerCard, price_line
from envelope.near import close_names

from ..catalogue import agents_of
from ..errors import BadInput, near_miss
from ..project.python_version import OLDEST, Version
from ..publication.settings import ForgeSettings
from .shorthands import FOR_ANY_PYTHON, TARGET_VERSION
from .spec import PLACES, BatchSpec

PLACE = re.compile(r"(?<!\$)\{([a-z_]+)\}")


def without_model(spec: BatchSpec, cards: Iterable[WorkerCard], *, model: str) -> Iterator[str]:
    """`model`: what the settings name for tasks that name none."""
    cards = list(cards)
    if not spec.asks_a_model or model or any(card.model for card in cards):
        return
    agents = agents_of(cards)
    asked = {step.agent for step in spec.steps if step.agent} or {"resolve"}
    if lacking := sorted(name for name in asked if name not in agents or not agents[name].model):
        yield f"no model is configured, and {' and '.join(lacking)} will ask one: set MUSTER_MODEL and its key"


def without_price(spec: BatchSpec, cards: Iterable[WorkerCard]) -> Iterator[str]:
    """A batch always has a budget, and no worker spends of one what it cannot count."""
    cards = list(cards)
    agents = agents_of(cards)
    asked = {agents[step.agent].model for step in spec.steps if step.agent in agents}
    unpriced = {card.model for card in cards if card.model and card.price is None and asked & {"", card.model}}
    for model in sorted(unpriced):
        yield f"the price of {model} is not known, so that no agent may spend of the budget: {price_line(model)}"


def unknown_agents(spec: BatchSpec, cards: Iterable[WorkerCard]) -> Iterator[str]:
    """A repository may have agents that no worker has seen yet; one that is nearly called so was meant."""
    if known := agents_of(cards):
        for name in sorted({step.agent for step in spec.steps if step.agent} - known.keys()):
            yield f"no worker knows the agent {name!r}; {near_miss(name, known)}"


def unknown_places(spec: BatchSpec) -> Iterator[str]:
    """Braces are left as they are where nothing fills them; what is nearly a place was meant as one."""
    known = {"path", "name", "folder", "repository", TARGET_VERSION, *PLACES}
    if spec.shards.command is not None:  # which fills what it prints
        return
    written: set[str] = set(PLACE.findall(spec.words))
    for name in sorted(written - known):
        if close := close_names(name, known):
            yield f"{{{name}}} in a step stays as it is: did you mean {{{close[0]}}}?"


def too_old_packages(spec: BatchSpec, oldest: Mapping[str, Version | None]) -> Iterator[str]:
    """`oldest`: the oldest Python that anything in each repository supports."""
    if all(step.ruff == FOR_ANY_PYTHON or not step.says(TARGET_VERSION) for step in spec.steps):
        return
    for name, version in oldest.items():
        if version is not None and version < (3, OLDEST):
            named = f"{name} supports Python {version[0]}.{version[1]}, and {{{TARGET_VERSION}}} is py3{OLDEST} there"
            yield f"{named}: what is written may not run on what is older"


def without_token(names: Iterable[str], forges: Mapping[str, ForgeSettings]) -> Iterator[str]:
    """Where the token should be is the operator's business: over HTTP strangers read this."""
    for name in sorted(set(names) & forges.keys()):
        try:
            forges[name].api_headers()
        except BadInput:
            yield f"the forge {name!r} has no token here: put one where [forges.{name}] says that it is"
