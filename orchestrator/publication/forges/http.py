"""HTTP as forges speak it: JSON, pages, limits. What may be asked twice is asked again; what may not, is not."""

from __future__ import annotations

import asyncio
import json
import random
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, cast
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from envelope.logs import get_logger
from envelope.redaction import redact_head

from ...errors import BadInput
from ..errors import ForgeDown, ForgeLimits, ForgeRefused, ForgeUnsure
from ..patience import is_limit, limit_s, pause_s

TIMEOUT_S = 30.0
MAX_ANSWER_BYTES = 16 * 1024 * 1024
MAX_SAID_CHARS = 300
MAX_PAGES = 200
PER_PAGE = 50  # which all of them give at least

_log = get_logger("publication")
_NEXT = re.compile(r"""rel="?next\b""")
_WRONG_PLACE = "check kind and url of [forges.NAME]: it is the address of its API"
T = TypeVar("T")

# What a person can do, by status.
_HINTS = {
    301: "it was renamed or moved: change the remote's address",
    401: "the token is wrong, or no longer good: put another one where [forges.NAME] says",
    403: "the token may not do this: give it the right to write code and requests of this repository",
    404: "check the remote's address; a forge also says this of what the token may not see",
    409: "something else is in its way: look at the repository's requests and branches",
    422: "look at the repository's rules for branches and requests",
}


@dataclass(slots=True)
class Pace:
    """How patient one command is. `max_wait_s`: of all waiting together; what takes longer is told, not waited for.

    `gap_s`: between two changes on one forge, which asks for it.
    """

    max_wait_s: float = 120.0
    tries: int = 6
    gap_s: float = 1.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    now_s: Callable[[], float] = time.time
    waited_s: float = 0.0
    changed_at_s: float = 0.0

    async def wait(self, wait_s: float, why: str) -> None:
        if self.waited_s + wait_s > self.max_wait_s:
            until_s = self.now_s() + wait_s
            when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(until_s))
            raise ForgeLimits(why, hint=f"go on after {when}: muster publish sync", until_s=until_s)
        self.waited_s += wait_s
        await self.sleep(wait_s)

    async def before_change(self) -> None:
        gap_s = self.changed_at_s + self.gap_s - self.now_s()
        if gap_s > 0:
            await self.sleep(gap_s)
        self.changed_at_s = self.now_s()


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    text: str


class Api:
    """One forge's API, to be entered as a context. It follows nobody elsewhere: a redirect is refused."""

    def __init__(
        self, base: str, headers: Mapping[str, str], pace: Pace, *, name: str, ca_file: Path | None = None
    ) -> None:
        self.base, self.pace, self.name = base, pace, name
        self._headers = {"User-Agent": "Muster", "Accept": "application/json", **headers}
        self._tls = ssl.create_default_context(cafile=str(ca_file)) if ca_file else True
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
            trust_env=False,  # it would look for ~/.netrc, too, and fail when that knows the host beside our token
            proxy=proxy_to(self.base),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def get(self, path: str, **query: str | int) -> Any:
        return self._read(await self._ask("GET", f"{path}?{urlencode(query)}" if query else path, None, again=True))

    async def pages(self, path: str, *, size_name: str = "per_page", **query: str | int) -> AsyncIterator[Any]:
        """Every item of a list, page after page, for as long as the forge names a next one."""
        for page in range(1, MAX_PAGES + 1):
            asked = urlencode({**query, size_name: PER_PAGE, "page": page})
            answer = await self._ask("GET", f"{path}?{asked}", None, again=True)
            for item in _list(self._read(answer)):
                yield item
            if not _NEXT.search(answer.headers.get("link", "")):
                return
        raise ForgeDown(f"{self.name} lists more than {MAX_PAGES * PER_PAGE} things", hint="close some requests")

    async def change(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """What comes to the same when it is done twice."""
        await self.pace.before_change()
        return self._read(await self._ask(method, path, body, again=True))

    async def create(self, path: str, body: Mapping[str, Any]) -> Any:
        """What would be there twice: `ForgeUnsure` when nobody knows whether it is there."""
        await self.pace.before_change()
        return self._read(await self._ask("POST", path, body, again=False))

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None, *, again: bool) -> _Answer:
        why = ""
        for tries in range(1, self.pace.tries + 1):
            try:
                answer = await self._once(method, path, body)
            except (aiohttp.ClientError, TimeoutError, OSError) as e:
                why = f"{self.name} cannot be reached: {redact_head(str(e) or type(e).__name__, MAX_SAID_CHARS)}"
                wait_s = pause_s(tries, self.pace.chance())
            else:
                if answer.status < 300:
                    return answer
                if is_limit(answer.status, answer.headers, answer.text):
                    why = f"{self.name} asks to be left alone for a while ({answer.status})"
                    await self._wait_for_limit(answer, tries, why)
                    continue  # refused before anything was done: also what makes something new may be asked again
                if answer.status < 500:
                    raise self._refused(answer)
                why = f"{self.name} answers {answer.status}"
                wait_s = pause_s(tries, self.pace.chance())
            if not again:
                raise ForgeUnsure(why, hint="look at it, then do the same again: nothing is made twice")
            _log.warning("forge_failed", forge=self.name, tries=tries, error=why)
            if tries < self.pace.tries:
                await self.pace.wait(wait_s, why)
        raise ForgeDown(why, hint="go on when it is back: muster publish sync")

    async def _wait_for_limit(self, answer: _Answer, tries: int, why: str) -> None:
        wait_s = limit_s(answer.headers, tries, self.pace.now_s())
        _log.warning("forge_limits", forge=self.name, tries=tries, wait_s=wait_s)
        await self.pace.wait(wait_s * (1 + self.pace.chance() / 10), why)

    async def _once(self, method: str, path: str, body: Mapping[str, Any] | None) -> _Answer:
        assert self._session is not None, "entered as a context"
        asked = self._session.request(
            method, self.base + path, json=body, headers=self._headers, allow_redirects=False, ssl=self._tls
        )
        async with asked as response:
            content = bytearray()
            async for chunk in response.content.iter_chunked(64 * 1024):
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    raise aiohttp.ClientPayloadError(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
            headers = {name.lower(): value for name, value in response.headers.items()}
            return _Answer(response.status, headers, content.decode("utf-8", "replace"))

    def _read(self, answer: _Answer) -> Any:
        try:
            return json.loads(answer.text or "null")
        except (ValueError, RecursionError) as e:
            raise ForgeDown(f"{self.name} answers with no JSON", hint=_WRONG_PLACE) from e

    def _refused(self, answer: _Answer) -> ForgeRefused:
        said = _said(answer.text)
        hint = _HINTS.get(answer.status, _HINTS[301] if answer.status < 400 else "see what the forge's own page says")
        message = f"{self.name} refuses ({answer.status}){f': {said}' if said else ''}"
        return ForgeRefused(message, hint=hint, status=answer.status)


def proxy_to(url: str) -> str | None:
    """As the environment says it, to curl and git as well."""
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc):
        return None
    proxy = getproxies().get(parts.scheme)
    if proxy is None or proxy.startswith(("http://", "https://")):
        return proxy
    if "://" in proxy:
        raise BadInput(f"{parts.scheme}_proxy names a proxy that is not spoken to", hint="name one by http://HOST:PORT")
    return f"http://{proxy}"


def reads(read: Callable[[Any], T]) -> Callable[[Any], T]:
    """Of a function that takes an answer apart: what has another form than the forge's documents say is told."""

    def wrapped(answer: Any) -> T:
        try:
            return read(answer)
        except (KeyError, TypeError, AttributeError) as e:
            raise ForgeDown("the forge answers in a form that is not known", hint=_WRONG_PLACE) from e

    return wrapped


@reads
def _list(answer: Any) -> list[Any]:
    if not isinstance(answer, list):
        raise TypeError
    return cast(list[Any], answer)


@reads
def default_branch(answer: Any) -> str:
    return str(answer["default_branch"] or "")


def _said(text: str) -> str:
    """What an answer gives as its reason: forges write `message`, `error` or `errors`, as text, lists or maps."""
    found: list[str] = []
    with suppress(ValueError, RecursionError):
        answer: Any = json.loads(text)
        if isinstance(answer, dict):
            told = cast(dict[str, Any], answer)
            found = [part for key in ("message", "error", "errors") for part in _texts(told.get(key), 3)]
    return redact_head(" ".join(" ".join(found).split()), MAX_SAID_CHARS)


def _texts(value: Any, depth: int) -> list[str]:
    if isinstance(value, str):
        return [value]
    if not depth or not isinstance(value, list | dict):
        return []
    inner = cast(dict[str, Any], value).values() if isinstance(value, dict) else cast(list[Any], value)
    return [text for each in inner for text in _texts(each, depth - 1)]
