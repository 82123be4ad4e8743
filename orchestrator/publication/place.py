"""Where a change goes: the remote's address, the forge that it belongs to, and how git is let in there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from repo.remotes import Remote, address_of, header_environment

from ..errors import BadInput, near_miss
from .address import Address, is_remote_name, read_address
from .settings import ForgeSettings
from .terms import DEFAULT_REMOTE, Form, Terms

HOW = "name it in the user's file as [forges.NAME] with kind, url and token_env or token_file"


@dataclass(frozen=True, slots=True)
class Place:
    """`forge` is the name of one that the settings know, or empty."""

    address: Address
    forge: str


async def place_of(
    terms: Terms, forges: Mapping[str, ForgeSettings], repository: Path | None, *, fetched_from: str = ""
) -> Place:
    """`repository` is the local one, whose remotes have names; without one, what was fetched has its address.

    `BadInput` and `RepoError` say what does not fit.
    """
    url = fetched_from if fetched_from and repository is None and terms.remote == DEFAULT_REMOTE else terms.remote
    if is_remote_name(url):
        if repository is None:
            raise BadInput(f"nobody knows where the remote {url!r} is", hint="name its address: --remote https://…")
        url = await address_of(repository, url)
    address = read_address(url)
    forge = terms.forge or forge_at(address, forges)
    if forge and forge not in forges:
        raise BadInput(f"there is no forge {forge!r} in the settings", hint=near_miss(forge, forges) + f"; {HOW}")
    if forge and not _is_on(address, forges[forge]):
        message = (
            f"the remote is on {address.host or 'this machine'}, and the forge {forge!r} on {forges[forge].git_host}"
        )
        raise BadInput(message, hint="its token goes to its own host alone: name another forge or remote")
    if not forge and terms.to is Form.REQUEST:
        raise BadInput(f"no forge is known at {address.host or 'a local path'}", hint=HOW)
    return Place(address, forge)


def remote_of(place: Place, forges: Mapping[str, ForgeSettings]) -> Remote:
    """For git, with the forge's token where it pushes by https; by ssh it has the user's own agent."""
    address = place.address
    if address.scheme not in ("https", "http"):
        return Remote(address.url, (address.scheme,))
    if not place.forge:
        return Remote(address.url, ("https",))
    settings = forges[place.forge]
    env = header_environment(settings.git_header(), settings.ca_file)
    return Remote(address.url, ("http",) if settings.plain else ("https",), env, credential=place.forge)


def forge_at(address: Address, forges: Mapping[str, ForgeSettings]) -> str:
    """The name of the forge that an address is on; empty when it is on none that is known."""
    return next((name for name, each in forges.items() if _is_on(address, each)), "")


def _is_on(address: Address, settings: ForgeSettings) -> bool:
    """By http only where the settings themselves name a forge of this machine so."""
    if address.scheme == "ssh":
        return address.host == settings.git_host.partition(":")[0]
    wanted = "http" if settings.plain else "https"
    return address.scheme == wanted and address.host.lower() == settings.git_host.lower()
