"""Figures as people read them."""

from __future__ import annotations

import re

from envelope.budget import MICROUSD_PER_USD

UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def dollars(microusd: int) -> str:
    """Cents, and below one dollar a hundredth of a cent: model calls are that cheap.

    >>> dollars(1_234_567), dollars(12_345), dollars(0)
    ('$1.23', '$0.0123', '$0.00')
    """
    usd = microusd / MICROUSD_PER_USD
    return f"${usd:.2f}" if usd >= 1 or not microusd else f"${usd:.4f}"


def tokens(count: int) -> str:
    """
    >>> tokens(950), tokens(12_400), tokens(3_200_000)
    ('950 tok', '12.4k tok', '3.2M tok')
    """
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.1f}{letter} tok"
    return f"{count} tok"


def duration(ms: int) -> str:
    """
    >>> duration(400), duration(61_000), duration(3_660_000)
    ('0.4 s', '1 m 01 s', '1 h 01 m')
    """
    if ms < 60_000:
        return f"{max(0, ms) / 1000:.1f} s"
    minutes, seconds = divmod(ms // 1000, 60)
    return f"{minutes} m {seconds:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} m"


def parse_duration_s(text: str) -> int:
    """Whole seconds of `90`, `90s`, `5m`, `1h30m`, `1d`; ValueError for anything else.

    >>> parse_duration_s("1h30m"), parse_duration_s("90")
    (5400, 90)
    """
    if not re.fullmatch(r"\d+|(\d+[smhd])+", text):
        raise ValueError(f"{text!r} is not a length of time such as 90s, 5m or 1h30m")
    return sum(int(count) * UNIT_S[unit or "s"] for count, unit in re.findall(r"(\d+)([smhd]?)", text))


def parse_microusd(text: str) -> int:
    """Of dollars as people write them; ValueError for anything else.

    >>> parse_microusd("2.50"), parse_microusd("$0.001")
    (2500000, 1000)
    """
    if not re.fullmatch(r"\$?\d{1,6}(\.\d{1,6})?", text.strip()):
        raise ValueError(f"{text!r} is not an amount of dollars such as 2.50")
    return round(float(text.strip().removeprefix("$")) * MICROUSD_PER_USD)
