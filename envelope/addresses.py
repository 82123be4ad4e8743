"""Which addresses are public. Pure.

Who connects to an address that somebody else named stands in its operator's network: not this machine, its neighbours,
or its cloud's metadata service must never be reached so.
"""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _networks(*written: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    return tuple(ipaddress.ip_network(network) for network in written)


# The whole table, and not the standard library's `is_global`, which says something else in every release.
NEVER_V4 = _networks(
    *("0.0.0.0/8", "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"),
    "100.64.0.0/10",  # behind a carrier's translation; some clouds keep their metadata there
    "168.63.129.16/32",  # a cloud's metadata on an address that looks public
    "192.0.0.0/24",  # protocols' own, and one more cloud's metadata
    *("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),  # documentation
    "192.88.99.0/24",  # relays to IPv6
    "198.18.0.0/15",  # benchmarks of networks
    *("224.0.0.0/4", "240.0.0.0/4"),  # many at once, and what is left
)
# What is public in IPv6 is one block. All else (loopback, mapped IPv4, translated IPv4, local, multicast) lies outside.
PUBLIC_V6 = ipaddress.ip_network("2000::/3")
NEVER_V6 = _networks(
    "2001::/23",  # protocols' own; Teredo, which hides an IPv4 address
    "2001:db8::/32",  # documentation
    "2002::/16",  # 6to4: an IPv4 address again
    "3fff::/20",  # documentation
)

WEB_PORTS = frozenset({80, 443})
FIRST_UNPRIVILEGED_PORT = 1024
# Above it: services that take a line of an HTTP request for a command, or that browsers refuse, too.
NEVER_PORTS = frozenset({2049, 2375, 3659, 4045, 5060, 5061, 6000, 6379, 6566, *range(6665, 6670), 6697, 10080, 11211})


def is_public(address: str) -> bool:
    """
    >>> is_public("93.184.215.14"), is_public("169.254.169.254"), is_public("::ffff:93.184.215.14")
    (True, False, False)
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        return not any(parsed in network for network in NEVER_V4)
    scoped = parsed.scope_id is not None
    return not scoped and parsed in PUBLIC_V6 and not any(parsed in network for network in NEVER_V6)


def is_web_port(port: int) -> bool:
    return port in WEB_PORTS or (port >= FIRST_UNPRIVILEGED_PORT and port not in NEVER_PORTS)
