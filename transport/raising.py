"""A cap of money as something that people answer: a task that it stops waits for the ask named here."""

from __future__ import annotations

ASK_FOR_MORE = "budget:"
TENANTS = "tenant_budget:"


def ask_for_more(cap_microusd: int) -> str:
    """The name of the ask: `will you raise this cap?`"""
    return f"{ASK_FOR_MORE}{cap_microusd}"


def ask_for_more_of_tenant(cap_microusd: int) -> str:
    """As `ask_for_more`, of a tenant's cap. It is answered by any other cap."""
    return f"{TENANTS}{cap_microusd}"
