"""Errors of the server and of the redis library, by what they mean for the command that met them."""

from __future__ import annotations

import re
import ssl

import redis.exceptions as library

from ..errors import Misconfigured, NotPermitted, QueueFull, TransportError, Unreachable


class NotTaken(Unreachable):
    """The server did not execute the command: to send it again is safe, whatever it does."""


# The first word of the server's answer → what it says of itself. None of these has executed anything.
NOT_TAKEN = {
    "LOADING": "is loading its data",
    "READONLY": "is a replica, and takes no writes",
    "MOVED": "no longer has this part of the cluster",
    "ASK": "is handing this part of the cluster over to another",
    "TRYAGAIN": "is handing this part of the cluster over to another",
    "CLUSTERDOWN": "says that its cluster is down",
    "MASTERDOWN": "is a replica that has lost its master",
    "NOREPLICAS": "has too few replicas to take writes",
    "MISCONF": "cannot write to its disk, and takes no writes",
    "BUSY": "is busy with a script",
    "UNBLOCKED": "has become a replica",
    "MAXCLIENTS": "has no room for another connection",
}
_REFUSED = {"NOAUTH", "WRONGPASS"}
_OF_CLASS: tuple[tuple[type[Exception], str], ...] = (
    (library.BusyLoadingError, "LOADING"),
    (library.ReadOnlyError, "READONLY"),
    (library.OutOfMemoryError, "OOM"),
    (library.AuthenticationError, "WRONGPASS"),
    (library.NoPermissionError, "NOPERM"),
)
# What is known by its text alone.
_OF_TEXT = {
    "max number of clients reached": "MAXCLIENTS",
    "The user executing the script can't": "NOPERM",  # Redis 6.2 and 7.0
    "ACL failure in script": "NOPERM",  # Redis 7.2, Valkey
}
# Redis 6.2 wraps what a script's command met: `ERR Error running script …: -READONLY You can't …`.
_WORD = re.compile(rf"(?:^|-)({'|'.join([*NOT_TAKEN, *_REFUSED, 'NOPERM', 'OOM'])})\b")


def word_of(error: BaseException) -> str:
    """The server's own word for what is wrong; empty when it said none that we know."""
    text = str(error)
    for kind, word in _OF_CLASS:
        if isinstance(error, kind):
            return word
    for part, word in _OF_TEXT.items():
        if part in text:
            return word
    found = _WORD.search(text)
    return found[1] if found else ""


def moved_to(error: BaseException) -> tuple[str, int] | None:
    """Where the slot is now, when that is what the server answered (`MOVED 866 10.0.0.7:6379`)."""
    found = re.match(r"MOVED \d+ (.*):(\d+)", str(error))
    return (found[1], int(found[2])) if found else None


def memory_full() -> QueueFull:
    return QueueFull("the Redis server's memory is full", retry_after_s=5.0, hint="raise its maxmemory")


def translated(error: BaseException, *, sent: bool = True) -> TransportError:
    """The library's exception as ours. `sent`: the command may have reached the server before it went wrong."""
    if isinstance(error, TransportError):
        return error
    word = word_of(error)
    if word in NOT_TAKEN:
        return NotTaken(f"the Redis server {NOT_TAKEN[word]}", hint="this often passes by itself; else look at its log")
    if word == "NOPERM":
        return NotPermitted(
            f"the Redis server does not permit this to us: {error}",
            hint="give the URL's user the rights of its role: helm/muster/files/users.acl, docs/redis.md",
        )
    if "undeclared key" in str(error):
        return Misconfigured(
            f"the Redis server runs no scripts that name keys by themselves, as Muster's do: {error}",
            hint="use another server, or let it: docs/redis.md, Managed services",
        )
    if word in _REFUSED:
        return Misconfigured(f"the Redis server refuses us: {error}", hint="check user and password in the URL")
    if word == "OOM":
        return memory_full()
    if isinstance(error.__context__, ssl.SSLCertVerificationError):
        return Misconfigured(
            f"the Redis server's certificate is not trusted: {error.__context__.verify_message}",
            hint="name the authority's certificate in the URL: rediss://HOST?ssl_ca_certs=FILE",
        )
    if isinstance(error, library.ConnectionError | library.TimeoutError | OSError):
        kind = Unreachable if sent else NotTaken
        why = str(error) or "it took too long"
        return kind(f"the Redis server does not answer: {why}", hint="check that it runs and that the URL is right")
    return TransportError(f"the Redis server reports: {error}")
