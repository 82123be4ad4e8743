"""What the way out of one sandbox carries beside the names that may be reached: credentials, and who is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HTTPS_PORT = 443


@dataclass(frozen=True, slots=True)
class Credential:
    """A header that requests to one host get on their way out, on this host: `http://HOST/…` goes on by https.

    What must never come back from there is `secrets`: the same secret as it may be written. `ca_file`: the authorities
    that the host is believed by, where they are not this machine's.
    """

    name: str
    host: str
    header: str
    value: str = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    port: int = HTTPS_PORT
    ca_file: Path | None = None

    @property
    def place(self) -> str:
        """The host as commands inside write it, behind `http://`."""
        return self.host if self.port == HTTPS_PORT else f"{self.host}:{self.port}"

    @property
    def inner_port(self) -> int:
        """Where commands inside ask for it."""
        return 80 if self.port == HTTPS_PORT else self.port


@dataclass(frozen=True, slots=True)
class Decision:
    """Of the proxy, on one request. `why_not` is empty for what was let through; `credential` and `request` (its
    method and path) say what was done with one."""

    host: str
    port: int
    why_not: str = ""
    credential: str = ""
    request: str = ""


Tell = Callable[[Decision], None]


def tell_nobody(decision: Decision) -> None: ...


@dataclass(frozen=True, slots=True)
class Outlet:
    """`private`: addresses of the operator's own network that may be connected to, as `10.0.0.5:8443`. `who`: names are
    looked up in turns that are fair between these."""

    credentials: tuple[Credential, ...] = ()
    private: frozenset[str] = frozenset()
    tell: Tell = field(default=tell_nobody, compare=False)
    who: str = field(default="", compare=False)


NO_OUTLET = Outlet()


def environment_for(credentials: Sequence[Credential]) -> dict[str, str]:
    """So that git and pip ask for these hosts in the way that the proxy can add something to."""
    pairs = [
        (f"url.http://{credential.place}/.insteadOf", written)
        for credential in credentials
        for written in _other_ways(credential)
    ]
    if not pairs:
        return {}
    env = {"GIT_CONFIG_COUNT": str(len(pairs)), "PIP_TRUSTED_HOST": " ".join(each.place for each in credentials)}
    for number, (key, value) in enumerate(pairs):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return env


def _other_ways(credential: Credential) -> tuple[str, ...]:
    """How projects write such a host in their submodules and remotes."""
    https = f"https://{credential.place}/"
    return (https, f"ssh://git@{credential.host}/", f"git@{credential.host}:")
