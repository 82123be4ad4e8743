"""The way of web tools into the network: through the egress proxy, which knows the one host that is meant.

The proxy resolves the name once and connects to the address that it has checked. Nothing listens anywhere: each
connection reaches the proxy by a pair of sockets.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest
from aiohttp.tracing import Trace
from yarl import URL

from sandbox.egress import ESTABLISHED, EgressProxy
from sandbox.outlet import Outlet
from transport.blobs.owners import acting_tenant

from .addresses import AddressPolicy
from .errors import Unreached

MAX_REFUSAL_BYTES = 4096


@asynccontextmanager
async def session_for(url: URL, policy: AddressPolicy) -> AsyncGenerator[aiohttp.ClientSession]:
    """A session that reaches the host of `url`, at addresses that the policy allows, and nobody else.

    It keeps no cookie, follows nothing of this process's environment, and unpacks nothing.
    """
    outlet = Outlet(who=acting_tenant())
    proxy = EgressProxy([f"{url.host}:{url.port}"], may_connect=policy.allows, outlet=outlet)
    try:
        async with aiohttp.ClientSession(
            connector=_Tunnels(proxy), cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, trust_env=False
        ) as session:
            yield session
    finally:
        await proxy.close()


class _Tunnels(aiohttp.BaseConnector):
    allowed_protocol_schema_set = frozenset({"http", "https"})

    def __init__(self, proxy: EgressProxy) -> None:
        super().__init__(force_close=True)
        self._proxy = proxy

    async def _create_connection(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        host, port = req.url.host or "", req.url.port or 0
        ours, theirs = socket.socketpair()
        try:
            ours.setblocking(False)
            await self._proxy.adopt(theirs)
            await self._tunnel(ours, host, port)
            tls = ssl.create_default_context() if req.is_ssl() else None
            name = host.rstrip(".") if tls else None
            _, protocol = await self._loop.create_connection(self._factory, sock=ours, ssl=tls, server_hostname=name)
        except BaseException:
            ours.close()
            raise
        return protocol

    async def _tunnel(self, ours: socket.socket, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        await loop.sock_sendall(ours, f"CONNECT {target} HTTP/1.1\r\n\r\n".encode("ascii", "replace"))
        answer = b""
        while len(answer) < len(ESTABLISHED) and (more := await loop.sock_recv(ours, len(ESTABLISHED) - len(answer))):
            answer += more
        if answer == ESTABLISHED:
            return
        while len(answer) < MAX_REFUSAL_BYTES and (more := await loop.sock_recv(ours, MAX_REFUSAL_BYTES)):
            answer += more
        said = answer.partition(b"\r\n\r\n")[2].decode("utf-8", "replace").strip()
        raise Unreached(f"{host}:{port} cannot be fetched from: {said or 'the egress proxy closed the connection'}")
