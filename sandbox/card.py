"""Whose a sandbox is, for those who find its folder without its worker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

CARD = "sandbox.json"


@dataclass(frozen=True, slots=True)
class Card:
    """The first thing in a sandbox's folder: whatever else is there has an owner."""

    owner: str
    expires_at_s: int
    labels: Mapping[str, str]

    def is_due(self, owners: frozenset[str], now_s: float) -> bool:
        return self.expires_at_s <= now_s or self.owner in owners


def write_card(folder: Path, card: Card) -> None:
    part = folder / f"{CARD}.part"
    part.write_text(json.dumps(asdict(card)))
    part.replace(folder / CARD)


def card_of(folder: Path) -> Card | None:
    """None for a sandbox that is being made, or was given up by who died in between."""
    try:
        return Card(**json.loads((folder / CARD).read_text()))
    except (OSError, ValueError, TypeError):
        return None
