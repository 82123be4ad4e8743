"""A server that speaks TLS alone, with a certificate of a private authority: every part of a process gets through."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from orchestrator.jobs import connect_jobs
from orchestrator.settings import Settings
from transport.errors import Misconfigured
from transport.keyring import fresh
from transport.redis import connect_redis

pytestmark = pytest.mark.redis

PASSWORD = "p@ss/word:%"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`ca.crt`, its own authority, and `key.pem`."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
         "-subj", "/CN=redis", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "ca.crt"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return folder / "ca.crt"


@pytest.fixture(scope="module")
def url(start_redis: Any, certificate: Path) -> str:
    """Without the authority's name."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    files = ("--tls-cert-file", str(certificate), "--tls-key-file", str(certificate.parent / "key.pem"))
    start_redis("--tls-port", str(port), "--tls-auth-clients", "no", *files, "--requirepass", PASSWORD)
    return f"rediss://:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/0"


async def test_a_transport_and_the_jobs_trust_the_authority_that_the_url_names(url, certificate, tmp_path):
    settings = Settings(redis_url=f"{url}?ssl_ca_certs={certificate}", state_dir=tmp_path)
    transport = await connect_redis(settings.redis_url, keyring=fresh())
    jobs = await connect_jobs(settings)

    assert await transport.now_ms() > 0
    assert await jobs.ping() is True

    await jobs.aclose()
    await transport.close()


async def test_an_authority_that_nobody_named_is_not_trusted(url):
    with pytest.raises(Misconfigured) as refusal:
        await connect_redis(url, keyring=fresh())

    assert "ssl_ca_certs" in refusal.value.hint


async def test_a_certificate_for_another_host_is_not_trusted(url, certificate):
    with pytest.raises(Misconfigured):
        await connect_redis(f"{url.replace('127.0.0.1', 'localhost')}?ssl_ca_certs={certificate}", keyring=fresh())


async def test_the_jobs_do_not_trust_it_either(url, certificate, tmp_path):
    elsewhere = f"{url.replace('127.0.0.1', 'localhost')}?ssl_ca_certs={certificate}"
    jobs = await connect_jobs(Settings(redis_url=elsewhere, state_dir=tmp_path))

    with pytest.raises(Exception, match=r"mismatch|certificate verify failed"):
        await jobs.ping()
    await jobs.aclose()
