"""Where large blobs go, as an operator writes it in MUSTER_BLOBS: a folder, or `s3://bucket/prefix`."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

from ..errors import Misconfigured
from .base import Blobs
from .directory import DirectoryBlobs

S3_OPTIONS = frozenset({"endpoint", "region"})


def open_blobs(place: str, *, retention_ms: int) -> Blobs:
    """The store at a place; `Misconfigured` when it cannot be one. Nothing is asked of it yet.

    `s3://bucket/prefix?endpoint=http://localhost:9000&region=eu-west-1`; both options may be missing. Credentials come
    from the environment (see `s3.py`). A folder must be absolute: processes start in different ones.
    """
    url = urlsplit(place)
    if url.scheme == "s3":
        return _bucket(url, retention_ms)
    folder = Path(place).expanduser()
    if url.scheme or not folder.is_absolute():
        raise Misconfigured(
            "the place for blobs is neither a bucket nor an absolute folder",
            hint="set MUSTER_BLOBS to s3://bucket/prefix or /a/folder",
        )
    return DirectoryBlobs(folder, retention_ms=retention_ms)


def _bucket(url: SplitResult, retention_ms: int) -> Blobs:
    options = dict(parse_qsl(url.query))
    endpoint = options.get("endpoint")
    if "@" in url.netloc or (endpoint and "@" in urlsplit(endpoint).netloc):
        raise Misconfigured(
            "the place for blobs carries credentials",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment of the processes instead",
        )
    if unknown := options.keys() - S3_OPTIONS:
        raise Misconfigured(
            f"the place for blobs has an unknown option {min(unknown)!r}",
            hint=f"there are: {', '.join(sorted(S3_OPTIONS))}",
        )
    if not url.netloc:
        raise Misconfigured("the place for blobs names no bucket", hint="write s3://bucket/prefix")
    try:
        # an extra: who keeps blobs in Redis or a folder need not install it
        from .s3 import open_bucket
    except ModuleNotFoundError as e:
        raise Misconfigured(
            "blobs in S3 need the package obstore", hint="install Muster with its extra: pip install 'muster[s3]'"
        ) from e
    return open_bucket(
        url.netloc, url.path.strip("/"), endpoint=endpoint, region=options.get("region"), retention_ms=retention_ms
    )
