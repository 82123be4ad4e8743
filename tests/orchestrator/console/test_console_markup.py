"""Whatever a worker says in whatever field of whatever event, pages have no element, attribute or place of it."""

from __future__ import annotations

import re
from enum import StrEnum
from html.parser import HTMLParser
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError

from envelope import events
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import Attachment, ErrorInfo, FileStat, PatchRef

pytestmark = pytest.mark.redis

EVIL = (
    "\"><script>alert(1)</script><img src=x onerror=alert(1)>' onfocus=x autofocus "
    "javascript:alert(1) \x1b[2J\x00\u202e\u2066\U000e0041 //evil.test/../../"
)
OF_STREAMS = (events.Resynced, events.UnknownEvent)  # no worker says these
KINDS = [
    kind
    for kind in vars(events).values()
    if isinstance(kind, type) and issubclass(kind, BaseModel) and "kind" in kind.model_fields and kind not in OF_STREAMS
]
PLAIN: dict[Any, Any] = {str: EVIL, int: 1, bool: True, float: 1.0, Any: EVIL}
OURS = re.compile(r"(/console(/.*)?|\?.*|#.*)")


def evil(said: Any) -> Any:
    """A value of the type with markup wherever it takes a text."""
    kind, parts = get_origin(said), get_args(said)
    if said in PLAIN:
        return PLAIN[said]
    if kind is Literal:
        return parts[0]
    if kind in (Union, UnionType):
        return evil(next(each for each in parts if each is not type(None)))
    if kind in (tuple, list):
        return [evil(parts[0])]
    if kind is dict:
        return {EVIL: evil(parts[1])}
    if isinstance(said, type) and issubclass(said, StrEnum):
        return next(iter(said))
    if isinstance(said, type) and issubclass(said, BaseModel):
        return made(said)
    return evil(parts[0])  # `Annotated`


def made(kind: type[BaseModel]) -> BaseModel:
    """As evil as it can be: a field that takes no such text has its default."""
    fields = {name: evil(field.annotation) for name, field in kind.model_fields.items()}
    while True:
        try:
            return kind.model_validate(fields)
        except ValidationError as e:
            for fault in e.errors():
                fields.pop(str(fault["loc"][0]))


class Elements(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


def strange_in(page: str) -> list[Any]:
    """What no template of ours writes: elements and attributes that run something, places that are elsewhere."""
    strange: list[Any] = re.findall(r"[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]", page)
    for tag, attributes in Elements(page).found:
        places = [attributes[name] for name in ("href", "src", "action", "formaction") if name in attributes]
        is_script = tag == "script" and not attributes.get("src", "").startswith("/console/static/")
        runs = [name for name in attributes if name.startswith("on") or name in ("style", "autofocus", "srcdoc")]
        if is_script or tag in ("img", "iframe", "object", "style", "base") or runs:
            strange.append((tag, attributes))
        strange += [(tag, place) for place in places if not OURS.fullmatch(place)]
    return strange


async def test_nothing_that_a_worker_says_becomes_markup(console):
    work = await console.work(EVIL)
    said = [made(kind) for kind in KINDS]
    assert len(said) > 20
    for event in said:
        await work.tell(event)
    under_way = await seen(console, work)
    errors = (ErrorInfo.of(ErrorCode.RECIPE_FAILED, EVIL, hint=EVIL),)
    blob = await console.stage.transport.blobs.put(
        f"diff --git a/{EVIL} b/{EVIL}\n--- a/x\n+++ b/x\n@@ -1 +1 @@ {EVIL}\n-{EVIL}\n+x{EVIL}\n".encode()
    )
    files = (FileStat(path=EVIL, status="M", added=1, removed=1),)
    patch = PatchRef(base="0" * 40, diff=blob, files=files, added=1, removed=1, tree="1" * 40)
    left = (Attachment(blob=blob, name=EVIL, media_type="text/html"),)
    await work.end(State.ERROR, dead=EVIL, errors=errors, output={"text": EVIL}, patch=patch, attachments=left)

    for place, page in {**under_way, **await seen(console, work)}.items():
        assert "&lt;script&gt;" in page, place
        assert strange_in(page) == [], place


async def seen(console, work) -> dict[str, str]:
    record = await console.stage.muster.record(work.lease.task_id)
    places = ["/traces", work.trace, work.task, f"{work.task}?step=9"]
    places += [f"{work.task}/diff", "/dead-letters"] if record.finished_at_ms else ["/"]
    pages = {f"{place} {record.state}": (await console.get(f"/console{place}", who="admin")).text for place in places}
    for place in (work.trace, work.task):
        async for _, parts in console.news(f"{place}/live"):
            pages[f"{place}/live {record.state}"] = "".join(filter(None, parts.values()))
            break
    return pages
