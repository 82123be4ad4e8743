"""Grants that open a way out are named in full, and no wildcard holds or hands on one."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from envelope.errors import ScopeExceeded
from envelope.reach import credentials_of, hosts_of
from envelope.scope import Scope, narrow

SCOPES = TypeAdapter[Scope](Scope)


@pytest.mark.parametrize(
    "grant", ["network:pypi.org", "network:git.example:8443", "network:h", "credential:forge.x-1_Y"]
)
def test_one_that_names_all_of_it_is_a_grant(grant: str):
    assert SCOPES.validate_python((grant,)) == (grant,)


@pytest.mark.parametrize(
    "grant",
    ["network:*", "network:*.org", "network:h:*", "network:H.org", "network:https://h", "network:h/", "network:h:0",
     "network:h:", "network:.h", "network:h.", "network:h\n", "network:" + "a" * 254, "credential:*", "credential:a b"],
)  # fmt: skip
def test_one_that_does_not_is_refused_and_says_what_would_do(grant: str):
    with pytest.raises(ValidationError, match=r"network:pypi\.org|credential:forge"):
        SCOPES.validate_python((grant,))


def test_wildcards_open_nothing():
    everything = ("*:**", "net*:pypi.org", "?etwork:pypi.org")

    assert hosts_of(everything) == credentials_of(everything) == frozenset()


@pytest.mark.parametrize("parent", [("*:**",), ("net*:**",), ("network:other.org", "edit:**"), ("credential:forge",)])
def test_a_child_gets_no_way_out_that_its_caller_has_not_by_name(parent: Scope):
    with pytest.raises(ScopeExceeded, match=r"network:pypi\.org"):
        narrow(parent, ("network:pypi.org",))


def test_a_child_gets_what_its_caller_has_and_a_port_is_another_grant():
    parent = ("network:pypi.org", "credential:forge", "*:**")

    assert narrow(parent, ("network:pypi.org", "credential:forge")) == ("network:pypi.org", "credential:forge")
    with pytest.raises(ScopeExceeded):
        narrow(parent, ("network:pypi.org:8443",))
