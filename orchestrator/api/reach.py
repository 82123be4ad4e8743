"""Repositories as callers over the network may name them: nothing of this machine's own reach is lent to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from repo.errors import SourceRefused
from repo.public import pinned_to_public
from repo.remotes import Remote

from ..batch.spec import BatchSpec, Repository
from ..errors import BadInput
from ..publication.address import read_address
from ..publication.place import Place, forge_at, remote_of
from ..publication.settings import ForgeSettings

HOW = "send it as a bundle: POST /v1/blobs, then `bundle`, `name` and `base`; or name its `url`"

LENT = "one of yours is named by whoever runs the server, in its settings: [forges.NAME] with your tenant in `tenants`"


def require_reachable_batch(spec: BatchSpec) -> None:
    """`BadInput` for what would be read from the server's own folders."""
    for number, repository in enumerate(spec.repositories):
        for key in ("path", "list"):
            if getattr(repository, key) is not None:
                raise BadInput(f"repositories[{number}].{key} names files of the server", hint=HOW)
    if spec.shards.files_from is not None:
        raise BadInput("shards.files_from names a file of the server", hint="write its lines as `files`")


@dataclass(frozen=True, slots=True)
class Reach:
    """`forges`: all of the settings'. `tenant`: whose work it is; None for who sees all tenants."""

    forges: Mapping[str, ForgeSettings]
    tenant: str | None

    @property
    def allowed(self) -> dict[str, ForgeSettings]:
        """The forges whose tokens this work may use."""
        return {name: each for name, each in self.forges.items() if self.tenant is None or each.is_for(self.tenant)}

    async def __call__(self, repository: Repository) -> Remote:
        """By https: with the token of a forge that this tenant may use, else to a public address and no other.

        By ssh it would come with the server's own keys. Other tenants' forges are as none: nothing is told of them.
        """
        address = read_address(repository.url or "")
        named, allowed = repository.forge, self.allowed
        if named and named not in allowed:
            raise BadInput(f"this tenant has no forge {named!r}", hint=LENT)
        if forge := forge_at(address, {named: allowed[named]} if named else allowed):
            return remote_of(Place(address, forge), allowed)
        if named:
            raise BadInput(f"{address.host} is not where the forge {named!r} is", hint="name another, or none")
        if address.scheme != "https":
            raise BadInput(f"{address.url} is not an https address", hint=HOW)
        return Remote(address.url, ("https",), await _pinned(address.url, self.tenant or ""))


async def _pinned(url: str, who: str) -> dict[str, str]:
    try:
        return await pinned_to_public(url, who)
    except SourceRefused as e:
        raise BadInput(str(e), hint=f"check it; {LENT}") from e
