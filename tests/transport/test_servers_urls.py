"""What a URL says about a fleet's servers."""

from __future__ import annotations

import pytest

from transport.errors import Misconfigured
from transport.redis.places import Address
from transport.redis.servers import named


@pytest.mark.parametrize(
    ("url", "kind", "addresses", "service"),
    [
        ("redis://", "", [("localhost", 6379)], ""),
        ("redis://h:1/3", "", [("h", 1)], ""),
        ("rediss://h", "", [("h", 6379)], ""),
        ("unix:///tmp/r.sock", "", [("/tmp/r.sock", 0)], ""),
        ("redis+cluster://a:1,b:2,c", "cluster", [("a", 1), ("b", 2), ("c", 6379)], ""),
        ("redis+sentinel://u:p@a,[::1]:7/main/2", "sentinel", [("a", 26379), ("::1", 7)], "main"),
        ("rediss+sentinel://a/with%20space", "sentinel", [("a", 26379)], "with space"),
    ],
)
def test_a_url_names_its_servers(url, kind, addresses, service):
    found = named(url)

    assert (found.kind, found.service) == (kind, service)
    assert list(found.addresses) == [Address(*address) for address in addresses]


def test_user_password_and_database_are_for_all_servers():
    options = named("redis+sentinel://me:s%40me@a,b/main/2").options

    assert (options["username"], options["password"], options["db"]) == ("me", "s@me", 2)


def test_tls_checks_the_servers_name_unless_the_url_says_that_nothing_is_checked():
    assert named("rediss://h").options["ssl_check_hostname"] is True
    assert named("rediss://h?ssl_check_hostname=false").options["ssl_check_hostname"] is False
    assert named("rediss+cluster://h?ssl_cert_reqs=none").options["ssl_check_hostname"] is False


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://h", "no kind"),
        ("unix://", "no socket"),
        ("redis+ring://h", "no kind"),
        ("redis://h:port", "[Pp]ort"),
        ("redis+sentinel://h", "service"),
        ("redis+cluster://h/1", "database 0"),
        ("redis://h?socket_timeout=1", "socket_timeout"),
        ("rediss://h?ssl_ca_certs=/nowhere.pem", "nowhere|No such file"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_with_the_remedy(url, why):
    with pytest.raises(Misconfigured, match=why) as refusal:
        named(url)
    assert "redis+cluster://" in refusal.value.hint


def test_no_message_shows_a_password():
    with pytest.raises(Misconfigured) as refusal:
        named("redis://me:secret@h/0?unheard-of=1")

    assert "secret" not in str(refusal.value) + refusal.value.hint
