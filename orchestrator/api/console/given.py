"""What somebody starts work on: a repository by its address or in a bundle, and files."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

from fastapi import Request
from starlette.datastructures import FormData, UploadFile

from envelope.messages import Attachment, Workspace
from repo.local import locate

from ...batch.spec import Repository
from ...batch.starts import fetched
from ..caller import Caller
from ..reach import Reach
from ..spooling import Spool
from .forms import lines_of, text_of, unusable

MAX_FILES = 20
HEADER_BYTES = 1024 * 1024  # a line for each of ten thousand branches
SIGNATURE = re.compile(rb"# v[23] git bundle\n")
REF = re.compile(r"([0-9a-f]{40}(?:[0-9a-f]{24})?) (\S+)")
HOW = "make it with: git bundle create FILE HEAD"


async def workspace_of(request: Request, caller: Caller, form: FormData) -> Workspace | None:
    """What is fetched is packed here, as for batches: as far as this caller may reach, and with no trust in it."""
    url, base, bundle = text_of(form, "url"), text_of(form, "base"), _uploads(form, "bundle")
    if url and bundle:
        raise unusable("a repository has an address or comes in a bundle, and this has both")
    if url:
        places: asyncio.Semaphore = request.app.state.fetch_places[caller.tenant]
        async with places:
            workspace = await _fetched(caller, Repository(url=url, base=base))
    elif bundle:
        spool: Spool = request.app.state.spool
        async with spool.whole(caller.token.name, bundle[0].file) as content:
            ref = await caller.muster.transport.blobs.put(content)
            workspace = Workspace(bundle=ref, base=base_in(content, base))
    else:
        return None
    return workspace.model_copy(update={"setup": lines_of(form, "setup"), "trusted": ""})


async def attachments_of(request: Request, caller: Caller, form: FormData) -> tuple[Attachment, ...]:
    """The form's files, stored; what the browser says of a file's kind and name is a claim."""
    files = _uploads(form, "files")
    if len(files) > MAX_FILES:
        raise unusable(f"these are {len(files)} files, and {MAX_FILES} go along", "pack them into an archive")
    given: list[Attachment] = []
    spool: Spool = request.app.state.spool
    for file in files:
        kind = file.content_type or "application/octet-stream"
        async with spool.whole(caller.token.name, file.file) as content:
            given.append(await caller.muster.attach(content, name=file.filename or "file", media_type=kind))
    return tuple(given)


def base_in(bundle: bytes, wanted: str = "") -> str:
    """The commit to start from, by its id, its ref or a branch's name; else the one that was checked out.

    >>> base_in(b"# v2 git bundle\\n" + b"1" * 40 + b" refs/heads/main\\n\\nPACK")
    '1111111111111111111111111111111111111111'
    """
    refs = dict(_refs(bundle))
    if re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", wanted):
        return wanted
    names = (wanted, f"refs/heads/{wanted}", f"refs/tags/{wanted}") if wanted else ("HEAD", "refs/muster/base")
    if found := next((refs[name] for name in names if name in refs), ""):
        return found
    if not wanted and len(set(refs.values())) == 1:
        return next(iter(refs.values()))
    known = ", ".join(sorted(refs)[:10])
    raise unusable(f"the bundle does not say where to start{f' by {wanted!r}' if wanted else ''}", f"it has: {known}")


def _refs(bundle: bytes) -> Iterator[tuple[str, str]]:
    """By name, from the header: text before the first empty line."""
    head = bundle[:HEADER_BYTES].partition(b"\n\n")[0]
    if not SIGNATURE.match(head):
        raise unusable("this is no bundle of git's", HOW)
    for line in head.decode(errors="replace").split("\n")[1:]:
        if line.startswith("-"):
            raise unusable("the bundle has only a part of the history", HOW)
        if found := REF.fullmatch(line):
            yield found[2], found[1]


async def _fetched(caller: Caller, repository: Repository) -> Workspace:
    settings = caller.muster.settings
    # what a stranger says is done without a secret, as in batches
    remote = await Reach({} if settings.read_only else settings.forges, caller.seen_tenant)(repository)
    start = await fetched(repository, settings.cache_dir, remote, tenant=caller.tenant)
    return await caller.muster.pack(await locate(start.git_dir), commit=start.base)


def _uploads(form: FormData, name: str) -> list[UploadFile]:
    """A browser sends a file without a name where none was chosen."""
    return [each for each in form.getlist(name) if isinstance(each, UploadFile) and each.filename]
