"""Instruction files at an address: each counts as it was pinned, or not at all, and is fetched once."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

from ..web.addresses import ANY
from ..web.errors import WebError
from ..web.fetching import Fetcher
from ..web.urls import parse_url

TIMEOUT_S = 5.0  # a session waits for it, once in a worker's life
ACCEPT = "text/markdown, text/plain;q=0.9, */*;q=0.1"
_PIN = re.compile(r"sha256=([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class PinnedPages:
    """What this worker has fetched, by its hash. Only the operator names addresses, so that any may be reached."""

    timeout_s: float = TIMEOUT_S
    _kept: dict[str, bytes] = field(default_factory=dict[str, bytes])

    async def get(self, address: str, max_bytes: int) -> tuple[str, bytes]:
        """The URL of `URL#sha256=HASH`, and the beginning of what is there, if all of it has that hash.

        `WebError` says why there is nothing; without a hash nobody is asked.
        """
        url, _, pin = address.partition("#")
        if not (pinned := _PIN.fullmatch(pin)):
            hint = f"look at what `curl -fsS {url}` prints, and name the sha256 of that: {url}#sha256=…"
            raise WebError(f"the address is not pinned; {hint}")
        if pinned[1] not in self._kept:
            page = await Fetcher(_Stays(parse_url(url).host), ANY).fetch(url, accept=ACCEPT, timeout_s=self.timeout_s)
            found = hashlib.sha256(page.body).hexdigest()
            if page.is_cut or found != pinned[1]:
                now = "it is too large" if page.is_cut else f"its sha256 is {found}"
                raise WebError(f"it is not what was pinned ({now}); look at it, and pin it again")
            self._kept[pinned[1]] = page.body[: max_bytes + 1]
        return url, self._kept[pinned[1]]


@dataclass(frozen=True, slots=True)
class _Stays:
    """A server must not send a worker anywhere else in its operator's network."""

    host: str | None

    def __call__(self, url: str) -> None:
        if parse_url(url).host != self.host:
            raise WebError(f"it leads to another host; name the address itself: {url}")
