"""What a credential is used for and where it never goes: a real TLS server on loopback, with its own authority."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from sandbox.base import Command, SandboxSpec
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.driver import DockerDriver
from sandbox.egress import EgressProxy
from sandbox.outlet import Credential, Decision, Outlet, environment_for
from sandbox.veil import Veil

SECRET = "hunter2-hunter2-hunter2"
HOST = "127.0.0.2"  # loopback, and not among what NO_PROXY names
Answer = Callable[[bytes, bytes], bytes]


def hello(head: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def echo(head: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(head), head)


@dataclass
class TlsHost:
    """Answers each connection's one request, and keeps what it was asked."""

    ca_file: Path
    answer: Answer = hello
    port: int = 0
    asked: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = b""
        if b"transfer-encoding: chunked" in head.lower():
            body = await reader.readuntil(b"0\r\n\r\n")
        self.asked.append(head + body)
        writer.write(self.answer(head, body))
        await writer.drain()
        writer.close()

    def credential(self, **changes: object) -> Credential:
        made = Credential("forge", HOST, "Authorization", f"Bearer {SECRET}", (SECRET,), self.port, self.ca_file)
        return replace(made, **changes)  # pyright: ignore[reportArgumentType]

    def outlet(self, **changes: object) -> Outlet:
        return Outlet((self.credential(**changes),), frozenset({f"{HOST}:{self.port}"}))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    folder.joinpath("names").write_text(f"subjectAltName=IP:{HOST}\n")
    for words in (
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority",
        "req -newkey rsa:2048 -nodes -keyout host.key -out host.csr -subj /CN=host",
        "x509 -req -in host.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out host.pem -days 2 -extfile names",
    ):
        subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True, timeout=60)
    return folder


@pytest.fixture
async def host(certificates: Path) -> AsyncIterator[TlsHost]:
    host = TlsHost(certificates / "ca.pem")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificates / "host.pem", certificates / "host.key")
    async with await asyncio.start_server(host.serve, HOST, 0, ssl=tls) as server:
        host.port = server.sockets[0].getsockname()[1]
        yield host


async def asked(folder: Path, outlet: Outlet, request: str, *, hosts: tuple[str, ...] = ()) -> bytes:
    """What the proxy answers to one request."""
    proxy = await EgressProxy(hosts, outlet=outlet).start(folder / "p")
    try:
        reader, writer = await asyncio.open_unix_connection(str(folder / "p"))
        writer.write(request.encode())
        async with asyncio.timeout(60):
            answer = await reader.read()
        writer.close()
        return answer
    finally:
        await proxy.close()
        (folder / "p").unlink()


def get(host: TlsHost, path: str = "/", headers: str = "", method: str = "GET") -> str:
    place = f"{HOST}:{host.port}"
    return f"{method} http://{place}{path} HTTP/1.1\r\nHost: {place}\r\n{headers}\r\n"


async def test_a_request_goes_on_by_https_with_the_header_and_the_answer_comes_back(host: TlsHost, tmp_path: Path):
    answer = await asked(tmp_path, host.outlet(), get(host, "/a?b=c", "Accept: x\r\n"))

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"\r\n\r\nhello")
    [request] = host.asked
    assert request.startswith(b"GET /a?b=c HTTP/1.1\r\n")
    assert f"Authorization: Bearer {SECRET}\r\n".encode() in request
    assert b"accept: x\r\n" in request.lower()


async def test_what_the_client_says_itself_is_not_added_to(host: TlsHost, tmp_path: Path):
    own = "authorization: Basic eDp5\r\nProxy-Authorization: x\r\nRange: bytes=0-1\r\nAccept-Encoding: gzip\r\n"
    await asked(
        tmp_path, host.outlet(), get(host, headers=own + "Host: elsewhere.example\r\n".replace("Host", "X-Host"))
    )

    head = host.asked[0].lower()
    assert head.count(b"authorization:") == 1
    assert b"range:" not in head
    assert b"accept-encoding: identity\r\n" in head


async def test_a_body_in_pieces_arrives_and_a_second_request_behind_it_does_not(host: TlsHost, tmp_path: Path):
    body = "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    request = get(host, "/push", "", "POST")[:-2] + body + get(host, "/second")
    await asked(tmp_path, host.outlet(), request)

    [whole] = host.asked
    assert whole.endswith(b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")


async def test_of_two_lengths_one_goes_on(host: TlsHost, tmp_path: Path):
    """By the other one the host's front would see a second request, with the credential's rights."""
    body = "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    await asked(tmp_path, host.outlet(), get(host, "/push", "", "POST")[:-2] + body)

    [whole] = host.asked
    assert b"content-length" not in whole.lower() and b"chunked" in whole


@pytest.mark.parametrize(
    "headers",
    [
        "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: -1\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Bad name: y\r\n",
    ],
)
async def test_a_request_whose_end_is_not_plain_goes_nowhere(host: TlsHost, tmp_path: Path, headers: str):
    answer = await asked(tmp_path, host.outlet(), get(host, "/", headers, "POST"))

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert host.asked == []


async def test_a_body_that_breaks_off_ends_the_request(host: TlsHost, tmp_path: Path):
    broken = get(host, "/", "Transfer-Encoding: chunked\r\n", "POST") + "zz\r\n"
    answer = await asked(tmp_path, host.outlet(), broken)

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert host.asked == []


def in_chunks(head: bytes, body: bytes) -> bytes:
    """The secret, cut in the middle by the transfer's own words."""
    pieces = [b"before hunter2-", b"hunter2-hunter2 after"]
    framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n"


def in_its_end(head: bytes, body: bytes) -> bytes:
    """Until the connection closes, and without its last character."""
    return b"HTTP/1.1 200 OK\r\n\r\nx" + SECRET[:-1].encode()


def in_a_header(head: bytes, body: bytes) -> bytes:
    return f"HTTP/1.1 200 {SECRET}\r\nX-Was: Bearer {SECRET}\r\nSet-Cookie: s=1\r\nContent-Length: 0\r\n\r\n".encode()


@pytest.mark.parametrize("answer", [echo, in_chunks, in_a_header])
async def test_a_host_that_says_the_secret_back_is_not_heard_saying_it(host: TlsHost, tmp_path: Path, answer: Answer):
    host.answer = answer
    heard = await asked(tmp_path, host.outlet(), get(host))

    assert heard.startswith(b"HTTP/1.1 200 ")
    assert b"hunter2" not in heard and b"*" * len(SECRET) in heard
    assert b"set-cookie" not in heard.lower()


async def test_what_only_begins_like_the_secret_comes_through(host: TlsHost, tmp_path: Path):
    host.answer = in_its_end
    assert SECRET[:-1].encode() in await asked(tmp_path, host.outlet(), get(host))


def packed(head: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx"


def nonsense(head: bytes, body: bytes) -> bytes:
    return b"SSH-2.0-server\r\n\r\n"


@pytest.mark.parametrize("answer", [packed, nonsense])
async def test_an_answer_that_cannot_be_looked_through_is_refused(host: TlsHost, tmp_path: Path, answer: Answer):
    host.answer = answer
    heard = await asked(tmp_path, host.outlet(), get(host))

    assert heard.startswith(b"HTTP/1.1 403 ") and b"no proper answer" in heard


async def test_a_redirect_within_the_host_stays_with_the_proxy_and_any_other_is_the_clients_own(
    host: TlsHost, tmp_path: Path
):
    def moved(place: str) -> Answer:
        return lambda head, body: f"HTTP/1.1 301 Moved\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()

    host.answer = moved(f"https://{HOST}:{host.port}/there")
    assert (
        f"location: http://{HOST}:{host.port}/there\r\n".encode()
        in (await asked(tmp_path, host.outlet(), get(host))).lower()
    )
    host.answer = moved("https://elsewhere.example/")
    assert b"location: https://elsewhere.example/\r\n" in (await asked(tmp_path, host.outlet(), get(host))).lower()


async def test_trace_is_refused(host: TlsHost, tmp_path: Path):
    assert b"TRACE" in await asked(tmp_path, host.outlet(), get(host, method="TRACE"))
    assert host.asked == []


async def test_a_tunnel_gets_nothing_and_needs_a_grant_of_its_own(host: TlsHost, tmp_path: Path):
    tunnel = f"CONNECT {HOST}:{host.port} HTTP/1.1\r\n\r\n"
    answer = await asked(tmp_path, host.outlet(), tunnel)

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert f"Ask for http://{HOST}:{host.port}/ instead".encode() in answer


async def test_no_other_port_or_host_gets_it(host: TlsHost, tmp_path: Path):
    for place in (HOST, f"{HOST}:80", "127.0.0.3", f"127.0.0.3:{host.port}"):
        answer = await asked(
            tmp_path, host.outlet(), f"GET http://{place}/ HTTP/1.1\r\nHost: {HOST}:{host.port}\r\n\r\n"
        )
        assert answer.startswith(b"HTTP/1.1 403 "), place
    assert host.asked == []


async def test_a_host_whose_certificate_is_not_believed_gets_nothing(host: TlsHost, tmp_path: Path):
    answer = await asked(tmp_path, host.outlet(ca_file=None), get(host))

    assert b"is not who it should be" in answer
    assert host.asked == []


async def test_a_host_without_tls_gets_nothing(tmp_path: Path, certificates: Path):
    plain = TlsHost(certificates / "ca.pem")
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(65536))
        writer.close()

    async with await asyncio.start_server(serve, HOST, 0) as server:
        plain.port = server.sockets[0].getsockname()[1]
        answer = await asked(tmp_path, plain.outlet(), get(plain))

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert SECRET.encode() not in b"".join(heard) and b"GET" not in b"".join(heard)


async def test_a_private_address_needs_the_operators_word(host: TlsHost, tmp_path: Path):
    answer = await asked(tmp_path, Outlet((host.credential(),)), get(host))

    assert b"private address" in answer
    assert host.asked == []


async def test_every_decision_is_told_with_what_was_done_and_not_the_secret(host: TlsHost, tmp_path: Path):
    told: list[Decision] = []
    outlet = replace(host.outlet(), tell=told.append)
    await asked(tmp_path, outlet, get(host, "/repo?token=x"))
    await asked(tmp_path, outlet, "GET http://elsewhere.example/ HTTP/1.1\r\n\r\n")

    assert told[0] == Decision(HOST, host.port, credential="forge", request="GET /repo")
    assert (told[1].host, told[1].port) == ("elsewhere.example", 80)
    assert "may not be reached" in told[1].why_not
    assert SECRET not in repr(told) and SECRET not in repr(outlet)


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_word_is_blanked_out_wherever_the_stream_is_cut(cut: int):
    veil, text = Veil(["secret"]), b"a secret b secre c secret"
    pieces = [text[at : at + cut] for at in range(0, len(text), cut)]

    assert b"".join([*map(veil.feed, pieces), veil.rest()]) == b"a ****** b secre c ******"


def test_git_is_told_to_ask_in_the_way_that_goes_through_the_proxy():
    env = environment_for([Credential("forge", "git.example", "A", "v", ("v",))])

    assert env["GIT_CONFIG_COUNT"] == "3"
    assert env["GIT_CONFIG_KEY_0"] == "url.http://git.example/.insteadOf"
    assert [env[f"GIT_CONFIG_VALUE_{number}"] for number in range(3)] == [
        "https://git.example/", "ssh://git@git.example/", "git@git.example:"
    ]  # fmt: skip
    assert environment_for([]) == {}


@pytest.mark.docker
@pytest.mark.parametrize("kind", ["docker", "bubblewrap"])
async def test_inside_it_is_used_and_nowhere_found(
    kind: str, host: TlsHost, driver: DockerDriver, bubblewrap: BubblewrapDriver, image: str, root_folder: str
):
    opened, root = (driver, image) if kind == "docker" else (bubblewrap, root_folder)
    host.answer = echo
    spec = SandboxSpec(root, outlet=host.outlet())
    async with await opened.open(spec) as sandbox:
        fetch = f"import urllib.request as r; print(r.urlopen('http://{HOST}:{host.port}/x').read().decode())"
        used = await sandbox.exec(Command(["python3", "-c", fetch]))
        search = (
            "env; cat /proc/*/environ /proc/*/cmdline; ls -laR /run; git config --list;"
            f" grep -rl hunter2 / --exclude-dir=proc --exclude-dir=sys; git ls-remote https://{HOST}:{host.port}/repo"
        )
        found = await sandbox.exec(Command(search))
        assert await sandbox.exec(Command("true")) is not None

    assert used.exit_code == 0, used.output
    assert b"Authorization: Bearer ****" in used.output
    assert b"hunter2" not in used.output + found.output.replace(b"grep -rl hunter2", b"")
    assert any(request.startswith(b"GET /repo/info/refs?service=git-upload-pack ") for request in host.asked)
    assert all(f"Bearer {SECRET}".encode() in request for request in host.asked)
