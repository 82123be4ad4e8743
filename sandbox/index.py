"""Where this host's pip finds packages, so that setup commands inside can use the same index and no other place."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from .errors import SandboxError
from .host_process import run

# pip knows its default index and where that keeps its files; asking beats writing host names down.
ASK_PIP = """
import json
from pip._internal.configuration import Configuration
from pip._internal.models.index import PyPI
configuration = Configuration(isolated=False)
configuration.load()
settings = dict(configuration.items())
print(json.dumps({"settings": settings, "index": PyPI.simple_url, "files": PyPI.file_storage_domain}))
"""
ASK_TIMEOUT_S = 30.0  # it reads a few files; a cold disk takes seconds
# pip's precedence: a variable wins over the section of the command, which wins over [global].
SECTIONS = (":env:", "install", "global")


@dataclass(frozen=True, slots=True)
class PackageIndex:
    """`hosts` for the egress proxy, `env` for pip inside, and the authorities that this host's pip believes."""

    hosts: frozenset[str]
    env: dict[str, str] = field(default_factory=dict[str, str])
    ca_bundle: Path | None = None


async def host_index() -> PackageIndex:
    """What `pip` on this host is configured to use, or its own default. `SandboxError` if pip cannot say."""
    hint = "name the hosts for setup yourself"
    try:
        answer = await run([sys.executable, "-P", "-c", ASK_PIP], timeout_s=ASK_TIMEOUT_S)
    except TimeoutError as slow:
        message = f"pip did not say within {ASK_TIMEOUT_S:.0f} s which index it uses."
        raise SandboxError(message, hint=hint) from slow
    if answer.exit_code != 0:
        said = answer.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise SandboxError(f"pip cannot say which index it uses: {said}", hint=hint)
    return index_from(json.loads(answer.stdout))


def index_from(answer: dict[str, object]) -> PackageIndex:
    """Only what travels: indexes by https or http. Folders of this host are not there inside, and secrets stay here."""
    settings = answer["settings"]
    assert isinstance(settings, dict)  # ASK_PIP made it
    configured = {str(key): str(value) for key, value in settings.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    main = _setting(configured, "index-url") or str(answer["index"])
    extra = [url for url in _setting(configured, "extra-index-url").split() if url.startswith(("https://", "http://"))]
    for url in (main, *extra):
        if urlsplit(url).username is not None:
            hint = "use an index that needs no password on this network, or a mirror"
            raise SandboxError("This host's package index needs a password, which must not enter a sandbox.", hint=hint)
    hosts = {_host(url) for url in (main, *extra)}
    if main == answer["index"]:
        hosts.add(str(answer["files"]))
    env = {"PIP_INDEX_URL": main, "PIP_EXTRA_INDEX_URL": " ".join(extra), "PIP_NO_CACHE_DIR": "1"}
    cert = _setting(configured, "cert")
    return PackageIndex(
        frozenset(hosts), {name: value for name, value in env.items() if value}, Path(cert) if cert else None
    )


def _setting(configured: dict[str, str], name: str) -> str:
    return next((configured[key] for section in SECTIONS if (key := f"{section}.{name}") in configured), "")


def _host(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    return host if parts.port is None else f"{host}:{parts.port}"
