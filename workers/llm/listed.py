"""What the list inside the litellm wheel says of a model: its window, its price, and which API it speaks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from .base import Kind
from .litellm import read_list
from .prices import Price, Rates

_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
RANKS = ("priority", "flex")  # of service, whose prices the list knows
MAX_PARTS = 8  # of a model's name
_SEES: dict[str, Kind] = {"supports_vision": "image", "supports_pdf_input": "pdf"}
# our rate → how the list calls it
_RATES = {
    "input_microusd": "input_cost_per_token",
    "output_microusd": "output_cost_per_token",
    "cached_microusd": "cache_read_input_token_cost",
    "cache_write_microusd": "cache_creation_input_token_cost",
}


@dataclass(frozen=True, slots=True)
class Listed:
    """Limits in tokens; None where the list does not say. `mode` is `chat`, `responses` (another API), …"""

    provider: str = ""
    mode: str = ""
    context: int | None = None
    output: int | None = None
    price: Price | None = None
    ranks: Mapping[str, Price] = field(default_factory=dict[str, Price])  # by `service_tier`, where it has its own
    sees: frozenset[Kind] = frozenset()
    thinks: bool = False


def listed(model: str) -> Listed | None:
    """A model by its name with or without its provider; None when the list has neither.

    The first call reads a file of 3 MB (20 ms).
    """
    rows = _rows()
    row = rows.get(model) or rows.get(model.partition("/")[2])
    return None if row is None else _listed(row)


def resold(model: str) -> Listed | None:
    """The model that a gateway may make of the name: they overlook its case, and take off what they were named with.

    >>> resold("openai/OpenAI/GPT-4o") == listed("gpt-4o")
    True
    """
    rows = {name.casefold(): row for name, row in _rows().items()}
    parts = [part.strip() for part in model.casefold().split("/")][-MAX_PARTS:]
    rests = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((_listed(rows[rest]) for rest in rests if rest in rows), None)


@cache
def _rows() -> Mapping[str, Mapping[str, Any]]:
    """Of a thousand fields and languages only what is asked here: 3 MB of text would stay as 20 MB of objects."""
    kept = {
        *_RATES.values(),
        *(f"{rate}_{rank}" for rate in _RATES.values() for rank in RANKS),
        *_SEES,
        "litellm_provider",
        "mode",
        "supports_reasoning",
        "max_input_tokens",
        "max_output_tokens",
        "max_tokens",
    }
    return {
        model: {key: value for key, value in row.items() if key in kept or "_above_" in key}
        for model, row in read_list().items()
        if row.get("mode") in ("chat", "responses", "completion")
    }


def _listed(row: Mapping[str, Any]) -> Listed:
    return Listed(
        provider=str(row.get("litellm_provider", "")),
        mode=str(row["mode"]),
        context=_tokens(row.get("max_input_tokens") or row.get("max_tokens")),
        output=_tokens(row.get("max_output_tokens")),
        price=_price(row),
        ranks={rank: price for rank in RANKS if (price := _price(row, f"_{rank}"))},
        sees=frozenset(kind for key, kind in _SEES.items() if row.get(key)),
        thinks=bool(row.get("supports_reasoning")),
    )


def _price(row: Mapping[str, Any], rank: str = "") -> Price | None:
    base = _rates(row, rank)
    if base.get("input_microusd") is None or base.get("output_microusd") is None:
        return None
    thresholds = sorted(int(found[1]) for key in row if (found := _TIER.fullmatch(key)))
    tiers = [(kilo * 1000, Rates(**{**base, **_above(row, kilo, rank, base)})) for kilo in thresholds]
    return Price(**base, tiers=tuple(tiers))


def _above(row: Mapping[str, Any], kilo: int, rank: str, base: Mapping[str, int]) -> dict[str, Any]:
    """Of a rank whose long calls the list does not know: as much as the rank's short ones, or the usual long ones."""
    usual = _rates(row, f"_above_{kilo}k_tokens")
    return _rates(row, f"_above_{kilo}k_tokens{rank}") or {
        ours: max(rate, base.get(ours, 0)) for ours, rate in usual.items()
    }


def _rates(row: Mapping[str, Any], suffix: str) -> dict[str, Any]:
    found = {ours: row.get(theirs + suffix) for ours, theirs in _RATES.items()}
    return {ours: round(usd * 1e12) for ours, usd in found.items() if usd is not None}  # per token → per million


def _tokens(limit: object) -> int | None:
    return int(limit) if isinstance(limit, int | float) else None
