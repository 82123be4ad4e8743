"""The servers that a URL names, and the client of each key.

    redis://HOST:PORT/0    rediss://HOST:PORT/0    unix:///PATH
    redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/0
    redis+cluster://HOST:PORT,HOST:PORT                      and both with rediss+… for TLS

User and password stand before the hosts, and go for all of them. TLS checks the server's name, too; its files are named
as the redis library names them: `?ssl_ca_certs=FILE&ssl_certfile=FILE&ssl_keyfile=FILE`.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qs, unquote

import redis.asyncio.connection as library
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import key_slot

from ..errors import Misconfigured
from ..watching import UNWATCHED, StoreWatch
from .client import COMMAND_TIMEOUT_S, WORK_PAUSES_S, Client
from .connections import Connections, Dial
from .places import Address, ClusterMap, ClusterPlace, FixedPlace, Place, SentinelPlace

CONNECT_TIMEOUT_S = 5.0
PORT = 6379
SENTINEL_PORT = 26379
# All else that the library takes from a URL would change how we wait and repeat.
PARAMETERS = {"client_name", "db", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname"}

_URL = re.compile(
    r"(?P<scheme>rediss?)(?:\+(?P<kind>sentinel|cluster))?://(?P<user>[^/?]*@)?(?P<hosts>[^/?]*)(?P<rest>.*)"
)


class Named(NamedTuple):
    """What a URL says: the addresses, the service of a sentinel, and what each connection is made with."""

    kind: str
    addresses: tuple[Address, ...]
    service: str
    options: dict[str, Any]


class Servers:
    """Hands out clients. Belongs to one event loop."""

    def __init__(
        self,
        url: str,
        *,
        pauses_s: Sequence[float] = WORK_PAUSES_S,
        timeout_s: float = COMMAND_TIMEOUT_S,
        watch: StoreWatch = UNWATCHED,
    ) -> None:
        """`Misconfigured` for a URL that cannot be used; nothing is connected yet."""
        self.url = url
        self.named = named(url)
        self.watch = watch
        self._pauses_s = pauses_s
        self._timeout_s = timeout_s
        self._connections = Connections(_dialer(self.named.options), watch)
        self._asks = Connections(_dialer(_without(self.named.options, "db")))
        self._asks_unnamed = Connections(_dialer(_without(self.named.options, "db", "username", "password")))
        self._map = ClusterMap(self.named.addresses, self._connections)
        self._one = None if self.named.kind == "cluster" else self._client(self._place())

    def client_of(self, key: str) -> Client:
        """Keys that one server has share a client, except in a cluster: there each slot may go its own way."""
        return self._one or self._client(ClusterPlace(self._map, key_slot(key.encode())))

    async def close(self) -> None:
        for connections in (self._connections, self._asks, self._asks_unnamed):
            await connections.close()

    def _place(self) -> Place:
        if self.named.kind == "sentinel":
            return SentinelPlace(self.named.addresses, self.named.service, self._asks, self._asks_unnamed)
        return FixedPlace(self.named.addresses[0])

    def _client(self, place: Place) -> Client:
        return Client(place, self._connections, pauses_s=self._pauses_s, timeout_s=self._timeout_s, watch=self.watch)


def named(url: str) -> Named:
    """What a URL names, before anything is connected to; `Misconfigured` with the forms that there are."""
    try:
        found = _parsed(url)
        _check_tls(found.options)
    except (ValueError, OSError, ssl.SSLError) as error:
        raise Misconfigured(
            f"the Redis URL cannot be used: {error}",
            hint="write redis://HOST:PORT/0, rediss://…, unix:///PATH, redis+sentinel://HOST:PORT/SERVICE/0 "
            "or redis+cluster://HOST:PORT",
        ) from error
    return found


def _parsed(url: str) -> Named:
    if unknown := set(parse_qs(url.partition("?")[2])) - PARAMETERS:
        raise ValueError(f"it has the unknown parameter {min(unknown)!r}")
    if url.startswith("unix:"):
        options = _options(url)
        if not (path := options.pop("path", "")):
            raise ValueError("it names no socket")
        return Named("", (Address(path),), "", options)
    parts = _URL.fullmatch(url)
    if not parts:
        raise ValueError("it is of no kind that we know")
    kind, user, path = parts["kind"] or "", parts["user"] or "", parts["rest"]
    service = ""
    if kind == "sentinel":
        service, path = _service(path)
    hosts = [_options(f"{parts['scheme']}://{user}{host}{path}") for host in parts["hosts"].split(",")]
    port = SENTINEL_PORT if kind == "sentinel" else PORT
    addresses = tuple(Address(host.pop("host", "localhost"), host.pop("port", port)) for host in hosts)
    if kind == "cluster" and hosts[0].get("db"):
        raise ValueError("a cluster has the database 0 only")
    return Named(kind, addresses, service, hosts[0])


def _service(path: str) -> tuple[str, str]:
    found = re.match(r"/([^/?]+)", path)
    if not found:
        raise ValueError("it names no service of the sentinels")
    return unquote(found[1]), path[found.end() :]


def _options(url: str) -> dict[str, Any]:
    """What the library makes connections with, when each try, and each time-out, is ours."""
    options = cast(dict[str, Any], library.parse_url(url))
    if issubclass(options.get("connection_class", library.Connection), library.SSLConnection):
        options.setdefault("ssl_check_hostname", options.get("ssl_cert_reqs", "required") != "none")
    if not url.startswith("unix:"):  # a unix socket has no keepalive, and refuses the option
        options["socket_keepalive"] = True
    # which commands may be repeated is decided by their callers; nobody here needs to know the library's version
    ours = {"retry": Retry(NoBackoff(), 0), "lib_name": None, "lib_version": None}
    return {**options, "socket_connect_timeout": CONNECT_TIMEOUT_S, **ours}


def _check_tls(options: dict[str, Any]) -> None:
    """Files that are not there are found now, and not whenever somebody connects."""
    connection = _dialer(options)(Address("localhost"))
    if isinstance(connection, library.SSLConnection):
        connection.ssl_context.get()


def _without(options: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}


def _dialer(options: dict[str, Any]) -> Dial:
    kind: Any = options.get("connection_class", library.Connection)
    rest = _without(options, "connection_class")

    def dial(address: Address) -> library.AbstractConnection:
        if issubclass(kind, library.UnixDomainSocketConnection):
            return kind(path=address.host, **rest)
        return kind(host=address.host, port=address.port, **rest)

    return dial
