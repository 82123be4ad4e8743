"""What a fetch may connect to, as a table, and one spelling for every URL."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.web.addresses import PUBLIC, is_public, is_web_port
from workers.web.errors import WebError
from workers.web.urls import join_url, parse_url


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "93.184.215.14", "172.15.255.255", "172.32.0.1", "100.63.255.255", "100.128.0.1", "192.167.1.1",
     "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::8a", "2620:fe::fe"],
)  # fmt: skip
def test_public_addresses_are_reached(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.255.0.1", "0.0.0.0", "0.1.2.3", "::1", "::", "::127.0.0.1"),  # this machine
        *("10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fd00::1", "fc00::1", "fec0::1"),  # private
        *("169.254.1.1", "fe80::1", "fe80::1%eth0", "2606:4700::1111%eth0"),  # link-local
        *("169.254.169.254", "169.254.170.2", "fd00:ec2::254", "168.63.129.16", "192.0.0.192", "100.100.100.200"),
        *("100.64.0.1", "100.127.255.255"),  # a carrier's translation
        *("224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"),  # multicast
        *("240.0.0.1", "255.255.255.255", "192.0.2.1", "198.51.100.1", "203.0.113.9", "198.18.0.1", "192.88.99.1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:7f00:1", "::ffff:93.184.215.14", "::ffff:0:10.0.0.1"),
        *("64:ff9b::10.0.0.1", "64:ff9b::5db8:d70e", "64:ff9b:1::a00:1"),  # NAT64
        *("2002:7f00:1::", "2002:c0a8:101::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1", "3fff::1"),
        *("100::1", "5f00::1", "4000::1"),  # not handed out
        *("", "localhost", "0x7f.1", "2130706433", "127.1", "0177.0.0.1", "1.1.1.1 ", "[::1]"),  # no addresses
    ],
)
def test_what_was_never_meant_for_strangers_is_not_reached(address):
    assert not is_public(address)
    assert not PUBLIC.allows(address, 443)


@given(st.integers(0, 2**32 - 1))
def test_no_ipv4_address_passes_in_the_clothes_of_ipv6(number):
    v4 = ipaddress.IPv4Address(number)

    for block in ("::ffff:0:0", "64:ff9b::", "::"):
        assert not is_public(str(ipaddress.IPv6Address(int(ipaddress.IPv6Address(block)) + number)))
    assert not is_public(str(ipaddress.IPv6Address((0x2002 << 112) + (number << 80) + 1)))
    assert v4.is_global or not is_public(str(v4)) or v4 in ipaddress.ip_network("192.0.0.0/24")


@pytest.mark.parametrize(
    ("port", "is_allowed"),
    [(80, True), (443, True), (8080, True), (3000, True), (65535, True),
     (0, False), (22, False), (25, False), (53, False), (1023, False), (2375, False), (6379, False), (6667, False)],
)  # fmt: skip
def test_ports_are_the_webs_or_unprivileged(port, is_allowed):
    assert is_web_port(port) is is_allowed
    assert PUBLIC.allows("1.1.1.1", port) is is_allowed


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("https://example.com", "https://example.com/"),
        (" https://example.com/a ", "https://example.com/a"),
        ("HTTP://EXAMPLE.com:80/A", "http://example.com/A"),
        ("https://example.com:8443/a", "https://example.com:8443/a"),
        ("https://example.com/docs/../secret", "https://example.com/secret"),
        ("https://example.com/docs/%2e%2e/secret", "https://example.com/secret"),
        ("https://example.com/a?q=1&r=%20#part", "https://example.com/a?q=1&r=%20"),
        ("https://münchen.example/ä", "https://xn--mnchen-3ya.example/%C3%A4"),
        ("http://[2606:4700::1111]/", "http://[2606:4700::1111]/"),
    ],
)
def test_a_url_has_one_spelling(written, read):
    assert str(parse_url(written)) == read
    assert str(parse_url(read)) == read


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("example.com", "write it in full"),
        ("", "write it in full"),
        ("ftp://example.com/", "http or https"),
        ("file:///etc/passwd", "http or https"),
        ("javascript:alert(1)", "http or https"),
        ("data:text/html,x", "http or https"),
        ("//example.com/", "write it in full"),
        ("https:///a", "URL|host"),
        ("https://", "URL|host"),
        ("https://user:pass@example.com/", "without"),
        ("https://user@example.com/", "without"),
        ("https://:@example.com/", "without"),
        ("https://good.example\\@evil.example/", "backslash"),
        ("https://good.example/\nHost: x", "control character"),
        ("https://good.example/a b", "blank"),
        ("https://example.com:99999/", "no URL"),
        ("https://example.com:x/", "no URL"),
        ("http://[::1/", "no URL"),
        ("https://example.com/" + "a" * 5000, "longer than"),
    ],
)
def test_what_is_no_url_for_us_is_refused(written, said):
    with pytest.raises(WebError, match=said):
        parse_url(written)


@given(st.text(max_size=40))
def test_whatever_is_written_is_a_web_url_or_refused(text):
    for written in (text, f"http://{text}", f"https://h/{text}"):
        try:
            url = parse_url(written)
        except WebError:
            continue
        assert url.scheme in ("http", "https") and url.host and url.user is None
        assert parse_url(str(url)) == url


@pytest.mark.parametrize(
    ("location", "leads_to"),
    [("/b", "https://example.com/b"), ("c?d", "https://example.com/x/c?d"), ("//other.example/", "https://other.example/"),
     ("http://other.example", "http://other.example/")],
)  # fmt: skip
def test_a_redirect_may_be_relative(location, leads_to):
    assert str(join_url(parse_url("https://example.com/x/y"), location)) == leads_to


@pytest.mark.parametrize("location", ["file:///etc/passwd", "https://u:p@example.com/", "/a\\b", "/a b", "x" * 5000])
def test_a_redirect_is_read_as_strictly_as_a_url(location):
    with pytest.raises(WebError):
        join_url(parse_url("https://example.com/"), location)
