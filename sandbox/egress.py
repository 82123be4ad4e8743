"""The only way out of a sandbox: a proxy on the host that knows a few names.

It listens on a unix socket, which is mounted into the one container that may use it. Inside, the tool server joins a
port on loopback to that socket. Names are resolved here, once, and the address that was checked is the one that is
connected to, so that a name which changes its mind gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import re
import shutil
import socket
import ssl
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from repo.addresses import is_inner
from repo.lookups import addresses_of

from .errors import SandboxError
from .outlet import NO_OUTLET, Credential, Decision, Outlet, environment_for
from .uids import AGENT_UID
from .workspace import let_agent_in

WEB_PORTS = frozenset({80, 443})
MAX_HEAD_BYTES = 64 * 1024  # eight times what web servers take
HEAD_TIMEOUT_S = 30.0  # a client inside sends its head at once; a silent one must not hold a connection
CONNECT_TIMEOUT_S = 30.0  # a dozen lost packets
CHUNK_BYTES = 64 * 1024  # what a pipe or socket buffer holds
MAX_REFUSED = 100  # for a hint; a command that asks for a million names must not fill this process
MAX_NAME_CHARS = 260  # the longest name that DNS knows, and a port
HOST = re.compile(r"[a-z0-9._:-]{1,253}")  # names and addresses: it is shown to people, and comes from inside
MAX_CONNECTIONS = 64  # an installer opens ten or so
MAX_WAITING = 64  # more than these in a queue are sent away: each holds a descriptor of the worker
SOCKET_NAME = "proxy.sock"
PEER = struct.Struct("3i")  # process, user, group: unix(7)
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
CA_NAME = "ca.crt"
# Where programs say which authorities they believe; the first that is set counts for us.
CA_VARIABLES = (
    "SSL_CERT_FILE",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
)


def proxy_environment(port: int, ca_folder: str | None) -> dict[str, str]:
    """For commands inside: the proxy, and the authorities of this host where they lie in `ca_folder`."""
    proxy = f"http://127.0.0.1:{port}"
    env = {name: proxy for upper in ("HTTP_PROXY", "HTTPS_PROXY") for name in (upper, upper.lower())}
    env |= {"NO_PROXY": "localhost,127.0.0.1", "no_proxy": "localhost,127.0.0.1"}
    return env if ca_folder is None else {**env, **dict.fromkeys(CA_VARIABLES, f"{ca_folder}/{CA_NAME}")}


def copy_ca_bundle(bundle: Path | None, folder: Path) -> bool:
    """Put the authorities that this host believes where the sandbox sees them: a company's proxy signs with its own.

    Without `bundle`, what this process's environment names. False when nothing is configured: the image's then count.
    """
    configured = [os.environ[name] for name in CA_VARIABLES if os.environ.get(name)]
    source = bundle or (Path(configured[0]) if configured else None)
    if source is None or not source.is_file():
        return False
    shutil.copyfile(source, folder / CA_NAME)
    (folder / CA_NAME).chmod(0o444)
    return True


log = logging.getLogger(__name__)


class _Refused(Exception):
    """The sentence that the client gets to read."""


class EgressProxy:
    """CONNECT and plain HTTP to allowed names. `refused` collects what was asked for in vain."""

    def __init__(
        self,
        hosts: Iterable[str],
        *,
        allow_private: bool = False,
        may_connect: Callable[[str, int], bool] | None = None,
        outlet: Outlet = NO_OUTLET,
    ) -> None:
        """A host is a name, for the ports 80 and 443, or `name:port`. `allow_private` is for an operator whose own
        index stands on a private address; it never comes from a task. `may_connect` judges addresses in its place."""
        self._hosts = frozenset(host.lower() for host in hosts)
        self._allow_private = allow_private
        self._outlet = outlet
        self._credentials = {(each.host, each.inner_port): each for each in outlet.credentials}
        self._may_connect = may_connect or self._is_public
        self._server: asyncio.Server | None = None
        self._user = AGENT_UID
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._connections: set[asyncio.Task[None]] = set()
        self.refused: set[str] = set()

    @property
    def environment(self) -> dict[str, str]:
        """What commands inside need beside the proxy's address."""
        return environment_for(self._outlet.credentials)

    async def start(self, socket_path: Path, user: int = AGENT_UID) -> Self:
        """`user` is the sandbox's."""
        self._user = user
        try:
            listener = _listen(socket_path)
        except OSError as error:
            raise SandboxError(f"The egress proxy cannot listen on {socket_path}: {error}.") from error
        self._server = await asyncio.start_unix_server(self._accept, sock=listener, limit=MAX_HEAD_BYTES)
        return self

    async def adopt(self, connection: socket.socket) -> None:
        """Serve one client, by the proxy's end of a pair of sockets, as if it had connected."""
        reader, writer = await asyncio.open_unix_connection(sock=connection, limit=MAX_HEAD_BYTES)
        self._connections.add(asyncio.create_task(self._accept(reader, writer)))

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # asyncio runs this as a task of its own
        self._connections.add(task)
        try:
            if not _may_come_in(writer, self._user) or len(self._connections) > MAX_CONNECTIONS + MAX_WAITING:
                return
            async with self._slots:
                await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # either side went away; nobody is left to be told
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            head = await reader.readuntil(b"\r\n\r\n")
        host, port = "", 0
        try:
            host, port, first_bytes = _parse(head)
            if first_bytes and (credential := self._credentials.get((host, port))):
                await self._carry(credential, head, reader, writer)
                return
            self._require_allowed(host, port)
            far_reader, far_writer = await self._connect(host, port)
        except _Refused as refusal:
            self._outlet.tell(Decision(host, port, why_not=str(refusal)))
            writer.write(_response("403 Forbidden", f"{refusal}\n"))
            await writer.drain()
            return
        self._outlet.tell(Decision(host, port))
        try:
            if first_bytes:
                far_writer.write(first_bytes)
            else:
                writer.write(ESTABLISHED)
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        finally:
            far_writer.close()

    async def _carry(
        self, credential: Credential, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        # Imported now: few sandboxes have a credential, and a worker should start without it.
        from .carried import Carried, Stream, Unfit, tls_for

        try:
            carried = Carried(credential, head)
            far = Stream(*await self._connect(credential.host, credential.port, tls_for(credential)))
            self._outlet.tell(
                Decision(credential.host, credential.port, credential=credential.name, request=carried.shown)
            )
            try:
                await carried.carry(Stream(reader, writer), far)
            finally:
                far.writer.close()
        except Unfit as unfit:
            raise _Refused(str(unfit)) from unfit

    def _require_allowed(self, host: str, port: int) -> None:
        if f"{host}:{port}" in self._hosts or (host in self._hosts and port in WEB_PORTS):
            return
        self._note_refused(host, port)
        other_way = next((each.place for each in self._outlet.credentials if each.host == host), "")
        instead = f" Ask for http://{other_way}/ instead: the proxy goes on by https." if other_way else ""
        raise _Refused(f"{host}:{port} may not be reached from this sandbox.{instead}")

    def _is_public(self, address: str, port: int) -> bool:
        place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        return self._allow_private or place in self._outlet.private or not is_private(address)

    def _note_refused(self, host: str, port: int) -> None:
        if len(self.refused) < MAX_REFUSED:
            self.refused.add(f"{host}:{port}"[:MAX_NAME_CHARS])

    async def _connect(
        self, host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            addresses = await addresses_of(host, port, self._outlet.who, str(id(self)))
        except (OSError, UnicodeError) as error:  # the second for a part of a name that is too long for one
            raise _Refused(f"{host} cannot be resolved.") from error
        allowed = [address for address in addresses if self._may_connect(address, port)]
        if not allowed:
            self._note_refused(host, port)
            raise _Refused(
                f"{host}:{port} is a private address, or no port of the web: only public addresses are reached."
            )
        name = host if tls else None
        for address in allowed:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    return await asyncio.open_connection(address, port, ssl=tls, server_hostname=name)
            except ssl.SSLError as error:
                raise _Refused(f"{host}:{port} is not who it should be: {error.reason or error}.") from error
            except OSError:
                pass  # the next address may answer
        raise _Refused(f"{host}:{port} does not answer.")


def _listen(socket_path: Path) -> socket.socket:
    """A socket's path is limited to 107 bytes, and a state folder's is not: so the folder is named by a descriptor."""
    folder = os.open(socket_path.parent, os.O_PATH | os.O_DIRECTORY)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{socket_path.name}")
        let_agent_in(socket_path, 0o660)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(folder)
    return listener


def _may_come_in(writer: asyncio.StreamWriter, user: int) -> bool:
    """The sandbox's user and our own, by the kernel's account, which counts as this host does. An engine with other
    numbers sees no socket of ours (`elsewhere/exits.py`)."""
    connection: socket.socket = writer.get_extra_info("socket")
    _, uid, _ = PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
    if uid in (user, os.geteuid()):
        return True
    log.warning("the user %d of this host was refused by the egress proxy of a sandbox", uid)
    return False


def is_private(address: str) -> bool:
    parsed = ipaddress.ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return is_inner(str(mapped or parsed))


def _parse(head: bytes) -> tuple[str, int, bytes]:
    """Host, port, and what to send there first: nothing for a tunnel, the rewritten request for plain HTTP."""
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3:
        raise _Refused("That is no HTTP request.")
    method, target, version = words
    tunnel = method == "CONNECT"
    try:
        url = urlsplit(f"//{target}" if tunnel else target)
        host, port = (url.hostname or "").lower(), url.port or (443 if tunnel else 80)
        if not HOST.fullmatch(host):
            raise ValueError(host)
    except ValueError as error:
        raise _Refused("That is no address.") from error
    if tunnel:
        return host, port, b""
    if url.scheme != "http":
        raise _Refused("A proxy takes CONNECT, or a request for an http address.")
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    # One request per connection, to the host that was checked, whatever the client's own headers say.
    own = ("host:", "connection:", "proxy-", "keep-alive:")
    kept = [line for line in lines[1:] if line and not line.lower().startswith(own)]
    request = [
        f"{method} {path} {version}",
        f"Host: {url.netloc.rpartition('@')[2]}",
        "Connection: close",
        *kept,
        "",
        "",
    ]
    return host, port, "\r\n".join(request).encode("latin-1")


def _response(status: str, text: str) -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
