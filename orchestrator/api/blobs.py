"""Bytes that tasks start from: a repository's bundle, an attachment."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel

from ..uploads import counted_first
from .access import Submitter
from .bodies import MAX_BLOB_BYTES
from .reading import BodyRoute
from .spooling import Spool

router = APIRouter(route_class=BodyRoute, prefix="/v1", tags=["blobs"])


class Stored(BaseModel):
    """`ref` is what a workspace's `bundle` or an attachment's `blob` names."""

    ref: str
    size_bytes: int


@router.post("/blobs", status_code=201, openapi_extra={"requestBody": {"content": {"application/octet-stream": {}}}})
async def store_blob(request: Request, caller: Submitter) -> Stored:
    """Store bytes under their own hash; the same bytes twice are one. They count before they come, as far as their
    length is said, also where they then do not come."""
    blobs, who = caller.muster.transport.blobs, caller.token.name
    said = request.headers.get("content-length", "")
    if said.isdecimal() and int(said) <= MAX_BLOB_BYTES:  # else it is refused as soon as it is read
        blobs = await counted_first(blobs, int(said))
    spool: Spool = request.app.state.spool
    async with spool.spooled(who, request.stream()) as file, spool.whole(who, file) as content:
        return Stored(ref=await blobs.put(content), size_bytes=len(content))
