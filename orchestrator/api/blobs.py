"""Bytes that tasks start from: a repository's bundle, an attachment."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel

from .access import Submitter

router = APIRouter(prefix="/v1", tags=["blobs"])


class Stored(BaseModel):
    """`ref` is what a workspace's `bundle` or an attachment's `blob` names."""

    ref: str
    size_bytes: int


@router.post("/blobs", status_code=201, openapi_extra={"requestBody": {"content": {"application/octet-stream": {}}}})
async def store_blob(request: Request, caller: Submitter) -> Stored:
    """Store bytes under their own hash; the same bytes twice are one."""
    content = await request.body()
    return Stored(ref=await caller.muster.transport.blobs.put(content), size_bytes=len(content))
