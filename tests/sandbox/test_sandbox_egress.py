"""The proxy at the only way out: real sockets, a real web server on loopback."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandbox.egress import (
    CA_VARIABLES,
    MAX_CONNECTIONS,
    MAX_WAITING,
    EgressProxy,
    copy_ca_bundle,
    is_private,
    proxy_environment,
)
from sandbox.errors import SandboxError
from sandbox.index import PackageIndex, index_from
from sandbox.uids import AGENT_GID


class WebServer:
    """Answers every request with what it was asked."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        await writer.drain()
        writer.close()


@pytest.fixture
async def web() -> AsyncIterator[WebServer]:
    web = WebServer()
    async with await asyncio.start_server(web.serve, "127.0.0.1", 0) as server:
        web.port = server.sockets[0].getsockname()[1]
        yield web


async def through(proxy: EgressProxy, tmp_path: Path, request: str, then: str = "") -> bytes:
    await proxy.start(tmp_path / "p")
    try:
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "p"))
        writer.write(request.encode())
        answer = b""
        if then:
            answer = await reader.readuntil(b"\r\n\r\n")
            writer.write(then.encode())
        async with asyncio.timeout(30):
            answer += await reader.read()
        writer.close()
        return answer
    finally:
        await proxy.close()


# It starts in the folder, because only we may enter those above it.
SANDBOX_UID = 2_000_017
ASK_AS = """
import os, socket, sys
user = int(sys.argv[1])
os.setgroups([]), os.setgid(user), os.setuid(user)
near = socket.socket(socket.AF_UNIX)
near.settimeout(30)
near.connect("proxy.sock")
try:
    near.sendall(b"GET http://example.com/ HTTP/1.1\\r\\n\\r\\n")
    sys.stdout.buffer.write(near.recv(100))
except (BrokenPipeError, ConnectionResetError):
    pass
"""


@pytest.mark.parametrize("user", [0, SANDBOX_UID, 10001, 65534], ids=["ours", "the sandbox's", "another's", "nobody"])
async def test_only_the_sandboxs_user_and_ours_are_heard(tmp_path: Path, user: int, caplog: pytest.LogCaptureFixture):
    """By what the kernel says of who connects: the socket's mode alone is one slip away from everybody."""
    proxy = await EgressProxy([]).start(tmp_path / "proxy.sock", SANDBOX_UID)
    mode, group = (tmp_path / "proxy.sock").stat().st_mode & 0o777, (tmp_path / "proxy.sock").stat().st_gid
    for each, wide in ((tmp_path, 0o755), (tmp_path / "proxy.sock", 0o666)):
        each.chmod(wide)
    asking = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", ASK_AS, str(user)), cwd=tmp_path, stdout=subprocess.PIPE
    )
    answer, _ = await asking.communicate()
    await proxy.close()

    assert (mode, group, asking.returncode) == (0o660, AGENT_GID, 0)
    assert answer.startswith(b"HTTP/1.1 403") if user in (0, SANDBOX_UID) else answer == b""
    assert (f"the user {user} of this host was refused" in caplog.text) == (user in (10001, 65534))


async def test_a_tunnel_to_an_allowed_host_carries_bytes_both_ways(web: WebServer, tmp_path: Path):
    proxy = EgressProxy([f"localhost:{web.port}"], allow_private=True)
    target = f"localhost:{web.port}"
    answer = await through(
        proxy, tmp_path, f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"
    )

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"hello")
    assert web.requests == [b"GET / HTTP/1.1\r\n\r\n"]


async def test_a_plain_request_is_rewritten_for_the_host_that_was_checked(web: WebServer, tmp_path: Path):
    proxy = EgressProxy([f"localhost:{web.port}"], allow_private=True)
    request = (
        f"GET http://localhost:{web.port}/a?b=c HTTP/1.1\r\nHost: elsewhere.example\r\n"
        "Proxy-Authorization: Basic eA==\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n"
    )
    assert (await through(proxy, tmp_path, request)).endswith(b"hello")

    lines = web.requests[0].decode().split("\r\n")
    assert lines == ["GET /a?b=c HTTP/1.1", f"Host: localhost:{web.port}", "Connection: close", "Accept: */*", "", ""]


@pytest.mark.parametrize(
    "target",
    ["localhost:{port}", "LOCALHOST:{port}", "127.0.0.1:{port}", "[::1]:{port}", "other.example:443", "localhost:22"],
)
async def test_a_host_that_is_not_on_the_list_is_refused(web: WebServer, tmp_path: Path, target: str):
    proxy = EgressProxy(["allowed.example", "localhost"], allow_private=True)
    answer = await through(proxy, tmp_path, f"CONNECT {target.format(port=web.port)} HTTP/1.1\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert web.requests == []
    assert proxy.refused == {target.format(port=web.port).lower().replace("[", "").replace("]", "")}


async def test_an_allowed_name_on_a_private_address_is_refused(web: WebServer, tmp_path: Path):
    proxy = EgressProxy([f"localhost:{web.port}"])
    answer = await through(proxy, tmp_path, f"CONNECT localhost:{web.port} HTTP/1.1\r\n\r\n")

    assert b"403" in answer
    assert b"private address" in answer
    assert web.requests == []


@pytest.mark.parametrize(
    "request_line", ["nonsense", "GET / HTTP/1.1", "GET ftp://h/ HTTP/1.1", "CONNECT h:x HTTP/1.1"]
)
async def test_what_is_no_proxy_request_is_refused(tmp_path: Path, request_line: str):
    assert (await through(EgressProxy(["h"]), tmp_path, f"{request_line}\r\n\r\n")).startswith(b"HTTP/1.1 403 ")


async def test_a_flood_of_connections_is_sent_away_and_passes(tmp_path: Path):
    """Each of them would take a descriptor of the worker, which has other sandboxes."""
    held = MAX_CONNECTIONS + MAX_WAITING
    proxy = await EgressProxy(["h"]).start(tmp_path / "p")
    flood = [await asyncio.open_unix_connection(str(tmp_path / "p")) for _ in range(2 * held)]
    async with asyncio.timeout(60):
        assert [await reader.read() for reader, _ in flood[held:]] == [b""] * held
        for _, writer in flood:
            writer.close()
        assert all([await reader.read() == b"" for reader, _ in flood])
        answer = b""
        while not answer:  # it hears of those who left when it looks at them next
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "p"))
            writer.write(b"GET http://elsewhere.example/ HTTP/1.1\r\n\r\n")
            answer = await reader.read()
            writer.close()
    await proxy.close()

    assert answer.startswith(b"HTTP/1.1 403 ")


async def test_a_name_that_no_server_can_have_is_refused(tmp_path: Path):
    name = "a" * 70 + ".example"
    assert b"cannot be resolved" in await through(EgressProxy([name]), tmp_path, f"CONNECT {name}:443 HTTP/1.1\r\n\r\n")


async def test_an_endless_head_is_cut_off(tmp_path: Path):
    assert await through(EgressProxy([]), tmp_path, "x" * 200_000) == b""


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "172.31.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "240.0.0.1",
     "::1", "::", "fe80::1%eth0", "fd00::1", "168.63.129.16", "192.0.0.192", "198.18.0.1",
     "2002:7f00:1::", "2001::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1"],
)  # fmt: skip
def test_a_private_address_is_known_as_one(address: str):
    assert is_private(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1"])
def test_a_public_address_is_none(address: str):
    assert not is_private(address)


def test_commands_are_told_of_the_proxy_and_of_the_authorities():
    env = proxy_environment(3128, "/run/x")

    assert env["https_proxy"] == env["HTTP_PROXY"] == "http://127.0.0.1:3128"
    assert {env[name] for name in CA_VARIABLES} == {"/run/x/ca.crt"}
    assert not any(name in proxy_environment(3128, None) for name in CA_VARIABLES)


def test_the_authorities_of_the_environment_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in CA_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert not copy_ca_bundle(None, tmp_path)

    (tmp_path / "own.pem").write_text("certificate")
    monkeypatch.setenv("PIP_CERT", str(tmp_path / "own.pem"))
    assert copy_ca_bundle(None, tmp_path)
    assert (tmp_path / "ca.crt").read_text() == "certificate"


DEFAULTS = {"index": "https://index.example/simple", "files": "files.example"}


def test_the_default_index_brings_its_file_host():
    assert index_from({"settings": {}, **DEFAULTS}).hosts == {"index.example", "files.example"}


def test_a_configured_index_replaces_the_default_and_a_variable_wins():
    settings = {
        "global.index-url": "https://global.example/simple",
        ":env:.index-url": "https://env.example:8443/simple",
        "global.extra-index-url": "file:///srv/wheels http://extra.example/simple",
        "global.cert": "/etc/own.pem",
    }
    assert index_from({"settings": settings, **DEFAULTS}) == PackageIndex(
        frozenset({"env.example:8443", "extra.example"}),
        {
            "PIP_INDEX_URL": "https://env.example:8443/simple",
            "PIP_EXTRA_INDEX_URL": "http://extra.example/simple",
            "PIP_NO_CACHE_DIR": "1",
        },
        Path("/etc/own.pem"),
    )


def test_an_index_with_a_password_stays_outside():
    settings = {"global.index-url": "https://user:secret@index.example/simple"}
    with pytest.raises(SandboxError) as refusal:
        index_from({"settings": settings, **DEFAULTS})
    assert "secret" not in str(refusal.value) + refusal.value.hint
