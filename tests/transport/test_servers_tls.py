"""TLS: a server with a certificate of the test's own authority, that asks its clients for theirs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envelope.lifecycle import State
from transport.errors import Misconfigured, TransportError
from transport.keyring import fresh
from transport.redis import connect_redis

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> Path:
    """An authority, `server` for 127.0.0.1, `client`, and `elsewhere` for another host."""
    folder = tmp_path_factory.mktemp("certificates")
    openssl(folder, "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority")
    for name, host in (("server", "IP:127.0.0.1"), ("client", "DNS:client"), ("elsewhere", "DNS:example.test")):
        openssl(folder, f"req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}")
        (folder / "names").write_text(f"subjectAltName={host}")
        openssl(
            folder,
            f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out {name}.pem -days 2 -extfile names",
        )
    return folder


def openssl(folder: Path, words: str) -> None:
    subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True, timeout=60)


def start_with_tls(start_redis, folder: Path, certificate: str = "server"):
    """Redis's plain port is closed: `--port 0` comes last and counts."""
    return lambda port: start_redis(
        *("--port", "0", "--tls-port", str(port), "--tls-ca-cert-file", str(folder / "ca.pem")),
        *("--tls-cert-file", str(folder / f"{certificate}.pem"), "--tls-key-file", str(folder / f"{certificate}.key")),
    )


@pytest.fixture
def tls_port(start_redis, certificates, unused_tcp_port) -> int:
    start_with_tls(start_redis, certificates)(unused_tcp_port)
    return unused_tcp_port


def files(folder: Path, *, ca: bool = True, client: bool = True) -> str:
    names = {"ssl_ca_certs": "ca.pem"} if ca else {}
    names |= {"ssl_certfile": "client.pem", "ssl_keyfile": "client.key"} if client else {}
    return "&".join(f"{name}={folder / file}" for name, file in names.items())


async def test_a_fleet_works_over_tls_and_so_does_its_keeper(tls_port, certificates, make_memory_fleet):
    url = f"rediss://127.0.0.1:{tls_port}/0?{files(certificates)}"
    transport = await connect_redis(url, keyring=fresh())
    fleet = type(await make_memory_fleet())(transport)
    request = await fleet.submit()
    claim = await fleet.claim_one()
    keeper = transport.keeper()

    assert keeper.renew([claim.lease]).lost == frozenset()
    await fleet.finish(claim)
    assert (await transport.record(request.task_id)).state is State.COMPLETED
    keeper.close()
    await transport.close()


async def test_a_server_whose_authority_is_not_known_is_refused_at_once(tls_port, certificates):
    with pytest.raises(Misconfigured, match="certificate is not trusted") as refusal:
        await connect_redis(f"rediss://127.0.0.1:{tls_port}?{files(certificates, ca=False)}", keyring=fresh())
    assert "ssl_ca_certs" in refusal.value.hint


async def test_a_certificate_for_another_host_is_refused(start_redis, certificates, unused_tcp_port):
    start_with_tls(start_redis, certificates, "elsewhere")(unused_tcp_port)

    with pytest.raises(Misconfigured, match="certificate is not trusted"):
        await connect_redis(f"rediss://127.0.0.1:{unused_tcp_port}?{files(certificates)}", keyring=fresh())


async def test_a_client_without_a_certificate_is_not_let_in(tls_port, certificates):
    with pytest.raises(TransportError):
        await connect_redis(f"rediss://127.0.0.1:{tls_port}?{files(certificates, client=False)}", keyring=fresh())
