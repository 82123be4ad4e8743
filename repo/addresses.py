"""Public addresses, told from those of this machine and its surroundings. Pure.

A worker stands in its operator's network: what is inner is itself, its neighbours, or its cloud's metadata service, and
was never meant for what strangers write.
"""

from __future__ import annotations

import ipaddress
import re

HOST = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")


def _networks(*written: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    return tuple(ipaddress.ip_network(network) for network in written)


# The whole tables, and not the standard library's `is_global`, which says something else in every release.
INNER_V4 = _networks(
    *("0.0.0.0/8", "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"),
    "100.64.0.0/10",  # behind a carrier's translation; some clouds keep their metadata there
    "168.63.129.16/32",  # a cloud's metadata on an address that looks public
    "192.0.0.0/24",  # protocols' own, and one more cloud's metadata
    "192.88.99.0/24",  # relays to IPv6
    "198.18.0.0/15",  # benchmarks of networks
    *("224.0.0.0/4", "240.0.0.0/4"),  # many at once, and what is left
)
# What is public in IPv6 is one block. All else (loopback, mapped IPv4, translated IPv4, local, multicast) lies outside.
PUBLIC_V6 = ipaddress.ip_network("2000::/3")
INNER_V6 = _networks(
    "2001::/23",  # protocols' own; Teredo, which hides an IPv4 address
    "2002::/16",  # 6to4: an IPv4 address again
)
# Nobody's, but for those who use them inside for what they want others to find by a name, such as a mirror.
DOCUMENTATION = _networks("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20")

WEB_PORTS = frozenset({80, 443})
FIRST_UNPRIVILEGED_PORT = 1024
# Above it: services that take a line of an HTTP request for a command, or that browsers refuse, too.
NEVER_PORTS = frozenset({2049, 2375, 3659, 4045, 5060, 5061, 6000, 6379, 6566, *range(6665, 6670), 6697, 10080, 11211})


def is_inner(address: str) -> bool:
    """
    >>> is_inner("93.184.215.14"), is_inner("169.254.169.254"), is_inner("::ffff:93.184.215.14"), is_inner("no address")
    (False, True, True, True)
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return True
    if isinstance(parsed, ipaddress.IPv4Address):
        return any(parsed in network for network in INNER_V4)
    scoped = parsed.scope_id is not None
    return scoped or parsed not in PUBLIC_V6 or any(parsed in network for network in INNER_V6)


def is_public(address: str) -> bool:
    """
    >>> is_public("93.184.215.14"), is_public("203.0.113.1")
    (True, False)
    """
    return not is_inner(address) and not any(ipaddress.ip_address(address) in network for network in DOCUMENTATION)


def is_host(host: str) -> bool:
    """Is it written as it is looked up? What git's library would decode or strip is another host than this one.

    >>> is_host("git.example.com"), is_host("::1"), is_host("%31.example.com"), is_host("①"), is_host("example.com.")
    (True, True, False, False, False)
    """
    if HOST.fullmatch(host):
        return True
    try:
        return "%" not in host and bool(ipaddress.IPv6Address(host))
    except ValueError:
        return False


def is_web_port(port: int) -> bool:
    return port in WEB_PORTS or (port >= FIRST_UNPRIVILEGED_PORT and port not in NEVER_PORTS)
