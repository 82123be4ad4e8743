"""Skills at an address that is no repository's: one file, or a folder that a list beside it names.

The list is `index.json`, as other agents read it: `{"skills": [{"name": "sing", "files": ["SKILL.md", "song.txt"]}]}`,
whose files are below the folder of the skill's name, beside the list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote, urljoin, urlsplit

import aiohttp
from pydantic import BaseModel, Field, ValidationError

from envelope.errors import ErrorCode
from envelope.redaction import redact_head
from envelope.skills import SKILL_FILE
from repo.folder import MAX_BYTES, MAX_FILE_BYTES, MAX_FILES, Entry

from .errors import BadInput, OrchestratorError, near_miss
from .publication.address import read_address
from .publication.forges.http import proxy_to

INDEX = "index.json"
TIMEOUT_S = 30.0
MAX_SAID_CHARS = 200
# Plain names below one folder: nothing that leads out of it, and nothing that an address would read otherwise.
FILE = r"^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*){0,7}$"


class PageDown(OrchestratorError):
    code = ErrorCode.REPOSITORY


class Listed(BaseModel):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    files: Annotated[tuple[Annotated[str, Field(pattern=FILE, max_length=500)], ...], Field(max_length=MAX_FILES)] = (
        SKILL_FILE,
    )


class Index(BaseModel):
    skills: Annotated[tuple[Listed, ...], Field(max_length=10_000)]


@dataclass(frozen=True, slots=True)
class Page:
    """A skill's files as its address has them now. `source`: what the pin says of where it is from."""

    entries: tuple[Entry, ...]
    source: str


def is_page(source: str) -> bool:
    """
    >>> is_page("https://example.com/sing/SKILL.md"), is_page("https://example.com/team/skills")
    (True, False)
    """
    parts = urlsplit(source)
    return parts.scheme in ("https", "http") and parts.path.rpartition("/")[2] in (SKILL_FILE, INDEX)


async def skill_at(url: str, name: str) -> Page:
    """The skill at the address of its SKILL.md, or the one called `name` in a list; `name` may be empty where the list
    has one alone."""
    read_address(url)
    async with aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
        trust_env=False,  # it would look for ~/.netrc, and show a stranger what is in it
        proxy=proxy_to(url),
    ) as session:
        if urlsplit(url).path.endswith(f"/{SKILL_FILE}"):
            if name:
                raise BadInput("--folder is of repositories and lists", hint=f"the address leads to a {SKILL_FILE}")
            return Page((Entry(SKILL_FILE, await _content(session, url)),), url)
        chosen = _chosen(await _content(session, url), url, name)
        entries: list[Entry] = []
        for path in dict.fromkeys(chosen.files):
            entries.append(Entry(path, await _content(session, urljoin(url, quote(f"{chosen.name}/{path}")))))
            if sum(len(entry.content) for entry in entries) > MAX_BYTES:
                raise BadInput(f"the skill is larger than {MAX_BYTES // 1024**2} MiB", hint="choose another skill")
        return Page(tuple(entries), f"{url}#{chosen.name}")


def _chosen(content: bytes, url: str, name: str) -> Listed:
    try:
        index = Index.model_validate_json(content)
    except ValidationError as e:
        raise BadInput(f"{url} is no list of skills", hint='its form: {"skills": [{"name": …, "files": […]}]}') from e
    known = {one.name: one for one in index.skills}
    if name in known:
        return known[name]
    if name:
        raise BadInput(f"{url} lists no skill {name!r}", hint=near_miss(name, known))
    if len(known) != 1:
        raise BadInput(
            f"{url} lists {len(known)} skills", hint=f"name one of them: --folder {next(iter(known), 'NAME')}"
        )
    return next(iter(known.values()))


async def _content(session: aiohttp.ClientSession, url: str) -> bytes:
    """All of it, from there and nowhere else."""
    try:
        async with session.get(url, allow_redirects=False) as response:
            if elsewhere := response.headers.get("Location"):
                raise BadInput(
                    f"{url} leads elsewhere", hint=f"look at it, and name it: {urljoin(url, elsewhere)[:500]}"
                )
            if not response.ok:
                raise PageDown(f"{url} answers {response.status}", hint="check the address: it is of the file itself")
            content = bytearray()
            async for chunk in response.content.iter_chunked(64 * 1024):
                content += chunk
                if len(content) > MAX_FILE_BYTES:
                    raise BadInput(f"{url} is larger than {MAX_FILE_BYTES} bytes", hint="choose another skill")
            return bytes(content)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as e:
        said = redact_head(str(e) or type(e).__name__, MAX_SAID_CHARS)
        hint = "check the address, and that this machine reaches it; what is pinned already stays as it is"
        raise PageDown(f"{url} cannot be reached: {said}", hint=hint) from e
