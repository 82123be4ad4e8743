"""Addresses of servers by key: always the same one, the one that Sentinel names, or the node that has its slot."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from ..errors import Misconfigured, TransportError
from .faults import NotTaken

# A sentinel, or a node that is asked for the map: the next one may know, too.
ASK_TIMEOUT_S = 2.0
# After this long without an answer the next node is asked as well.
SILENCE_S = 0.05


class Address(NamedTuple):
    """Of a server: host and port, or the path of a unix socket and 0."""

    host: str
    port: int = 0


class Asks(Protocol):
    """Sends one command to one server (see `Connections`)."""

    async def ask(self, address: Address, *command: str, timeout_s: float) -> Any: ...


class Place(Protocol):
    @property
    def known(self) -> Address | None:
        """Where the server was when it last answered; None: `find` has to look."""
        ...

    async def find(self) -> Address:
        """Look where the server is; `NotTaken` when nobody can say."""
        ...

    def forget(self) -> None:
        """Nobody answers there, or not as one that has the key."""
        ...

    def moved(self, address: Address) -> None:
        """The server itself said who has the key now."""
        ...


class FixedPlace:
    def __init__(self, address: Address) -> None:
        self.known: Address | None = address
        self._address = address

    async def find(self) -> Address:
        return self._address

    def forget(self) -> None: ...
    def moved(self, address: Address) -> None: ...


class SentinelPlace:
    """The master of a service, as the first sentinel that answers names it. Often only the servers have a password."""

    def __init__(self, sentinels: Sequence[Address], service: str, asks: Asks, asks_unnamed: Asks) -> None:
        """`asks_unnamed` gives no user and no password."""
        self.known: Address | None = None
        self._asks_unnamed = asks_unnamed
        self._sentinels = list(sentinels)
        self._service = service
        self._asks = asks
        self._looking = asyncio.Lock()

    async def find(self) -> Address:
        async with self._looking:  # of many commands that lost their connection together, one asks
            if self.known is None:
                self.known = await self._ask_all()
            return self.known

    async def _ask_all(self) -> Address:
        cause: TransportError | None = None
        for sentinel in list(self._sentinels):
            try:
                found = await self._ask(sentinel)
            except TransportError as error:
                cause = error
                continue
            if found is None:
                raise Misconfigured(
                    f"the sentinel {sentinel.host}:{sentinel.port} knows no service {self._service!r}",
                    hint="write redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/0",
                )
            self._sentinels.sort(key=lambda other: other != sentinel)  # who answers is asked first from now on
            return Address(found[0].decode(), int(found[1]))
        if isinstance(cause, Misconfigured):
            raise cause
        raise NotTaken("no sentinel answers", hint="check that they run and that the URL is right") from cause

    async def _ask(self, sentinel: Address) -> Any:
        question = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
        try:
            return await self._asks.ask(sentinel, *question, timeout_s=ASK_TIMEOUT_S)
        except Misconfigured:
            return await self._asks_unnamed.ask(sentinel, *question, timeout_s=ASK_TIMEOUT_S)

    def forget(self) -> None:
        self.known = None

    def moved(self, address: Address) -> None: ...


class Range(NamedTuple):
    """Of slots, from the first to the last, with the node that has them."""

    first: int
    last: int
    owner: Address


class ClusterMap:
    """Which node has which slot, as any node that answers says."""

    def __init__(self, nodes: Sequence[Address], asks: Asks) -> None:
        self._nodes = list(nodes)
        self._asks = asks
        self._ranges: list[Range] = []  # in the order of their slots
        self._learnt: dict[int, Address | None] = {}  # what was heard of single slots since; None: look again
        self._looking = asyncio.Lock()

    def owner(self, slot: int) -> Address | None:
        if slot in self._learnt:
            return self._learnt[slot]
        at = bisect_right(self._ranges, slot, key=lambda one: one.first) - 1
        return self._ranges[at].owner if at >= 0 and slot <= self._ranges[at].last else None

    async def find(self, slot: int) -> Address:
        async with self._looking:
            if not (owner := self.owner(slot)):
                self._ranges, self._learnt = await self._ask_all(), {}
                owner = self.owner(slot)
        if not owner:
            raise NotTaken(f"no node of the Redis cluster has the slot {slot}", hint="look at `CLUSTER INFO`")
        return owner

    async def _ask_all(self) -> list[Range]:
        """The first answer. A node that is silent for a moment does not keep the next one from being asked."""
        cause: TransportError | None = None
        others, asking = list(self._nodes), dict[asyncio.Future[Any], Address]()
        try:
            while others or asking:
                if others:
                    node = others.pop(0)
                    question = self._asks.ask(node, "CLUSTER", "SLOTS", timeout_s=ASK_TIMEOUT_S)
                    asking[asyncio.ensure_future(question)] = node
                silence_s = SILENCE_S if others else None
                done, _ = await asyncio.wait(asking, timeout=silence_s, return_when=asyncio.FIRST_COMPLETED)
                for answer in done:
                    node = asking.pop(answer)
                    try:
                        return self._read(node, answer.result())
                    except TransportError as error:
                        cause = error
        finally:
            for question in asking:
                question.cancel()
        if isinstance(cause, Misconfigured):
            raise cause
        raise NotTaken("no node of the Redis cluster answers", hint="check that they run and the URL") from cause

    def _read(self, node: Address, answer: list[Any]) -> list[Range]:
        """From `CLUSTER SLOTS`: [first, last, [host, port, …] of the master, replicas…]; a node may not know its host.

        Who answers is asked first from now on.
        """
        ranges = [
            Range(first, last, Address(master[0].decode() if master[0] else node.host, int(master[1])))
            for first, last, master, *_ in answer
        ]
        self._nodes = list(dict.fromkeys([node, *(one.owner for one in ranges), *self._nodes]))
        return sorted(ranges)

    def forget(self, slot: int) -> None:
        self._learnt[slot] = None

    def moved(self, slot: int, address: Address) -> None:
        self._learnt[slot] = address


class ClusterPlace:
    """The node of one slot."""

    def __init__(self, nodes: ClusterMap, slot: int) -> None:
        self._nodes = nodes
        self._slot = slot

    @property
    def known(self) -> Address | None:
        return self._nodes.owner(self._slot)

    async def find(self) -> Address:
        return await self._nodes.find(self._slot)

    def forget(self) -> None:
        self._nodes.forget(self._slot)

    def moved(self, address: Address) -> None:
        self._nodes.moved(self._slot, address)
