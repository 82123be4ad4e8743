"""How often a token may call: a bucket for each, in this process. It protects the server, not a budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Rates:
    """`per_s` calls a second on average, `burst` at once."""

    per_s: float = 50.0
    burst: float = 200.0
    clock: Callable[[], float] = time.monotonic
    _left: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])  # name → calls, when

    def take(self, name: str) -> float:
        """Seconds to wait before the next call; 0: this one is taken."""
        now = self.clock()
        left, then = self._left.get(name, (self.burst, now))
        left = min(self.burst, left + (now - then) * self.per_s)
        if left < 1:
            self._left[name] = (left, now)
            return (1 - left) / self.per_s
        self._left[name] = (left - 1, now)
        return 0
