"""Addresses that a stranger may have fetched: public hosts, written as they are looked up."""

from __future__ import annotations

import re

import pytest

from repo.errors import SourceRefused
from repo.public import pinned_to_public


@pytest.mark.parametrize(
    "url",
    [
        "http://git.example.com/a", "ssh://git@git.example.com/a", "https:///a", "https://git.example.com:99999/a",
        "https://git.example.com:0/a", "https://b\u00fccher.example.com/a", "https://a%62.example.com/a",
        "https://\u2460.example.com/a", "https://git.example.com./a", "https://[::1/a", "https://a..b/x",
    ],
)  # fmt: skip
async def test_an_address_that_git_would_read_otherwise_is_refused(url: str):
    with pytest.raises(SourceRefused, match="not an https address"):
        await pinned_to_public(url)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "0x7f000001", "2130706433"])
async def test_a_host_of_an_inner_network_is_refused(host: str):
    with pytest.raises(SourceRefused, match=f"^there is no public host {re.escape(host.strip('[]'))}$"):
        await pinned_to_public(f"https://{host}/a")


async def test_git_goes_to_the_address_that_was_looked_at():
    environment = await pinned_to_public("https://1.1.1.1:8443/a")

    assert environment["GIT_CONFIG_VALUE_0"] == "1.1.1.1:8443:1.1.1.1"
    assert environment["GIT_CONFIG_VALUE_1"] == "false"


async def test_a_host_that_is_none_is_told_as_one_of_an_inner_network_is():
    host = "a" * 64 + ".example"
    with pytest.raises(SourceRefused, match=f"^there is no public host {re.escape(host)}$"):
        await pinned_to_public(f"https://{host}/a")
