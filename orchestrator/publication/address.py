"""Addresses of remote repositories, read as git reads them. Pure.

>>> read_address("git@git.example.com:team/app.git")
Address(url='git@git.example.com:team/app.git', scheme='ssh', host='git.example.com', path='team/app')
>>> read_address("https://git.example.com:8443/team/sub/app").path
'team/sub/app'
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from repo.addresses import is_host

from ..errors import BadInput

_SHORT = re.compile(r"(?:[\w.-]+@)?([\w.-]+):(?!//)([^:\s]+)")
_NAME = re.compile(r"[\w.-]+")
SCHEMES = ("https", "http", "ssh")


@dataclass(frozen=True, slots=True)
class Address:
    """`path` is `owner/name` on a forge; of scheme `file` the whole path, and `host` is empty."""

    url: str
    scheme: str
    host: str
    path: str

    @property
    def owner(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def repository(self) -> str:
        """The same for all ways to write it: forges know no capitals, and one answers at several ports.

        >>> read_address("https://Git.example.com:443/Team//app.git/").repository
        'git.example.com/team/app'
        >>> read_address("git@git.example.com:team/app").repository
        'git.example.com/team/app'
        """
        if self.scheme == "file":
            return str(Path(self.path).resolve())
        host = urlsplit(f"//{self.host}").hostname or self.host
        return f"{host.rstrip('.')}/{posixpath.normpath(self.path).removesuffix('.git').lower()}"


def is_remote_name(text: str) -> bool:
    """A name such as `origin`, and no address?"""
    return _NAME.fullmatch(text) is not None and text not in (".", "..")


def read_address(text: str) -> Address:
    """`BadInput` for what is none, and for one with a password in it: that would stand in a command line."""
    parts = _split(text)
    if parts.scheme in SCHEMES and parts.hostname:
        if parts.password or (parts.username and parts.scheme != "ssh"):
            hint = "take it out, and put it where [forges.NAME] finds it: token_env or token_file"
            raise BadInput("the remote's address holds a user or a password", hint=hint)
        host = parts.hostname if parts.scheme == "ssh" else parts.netloc
        return Address(text, parts.scheme, host, _path(unquote(parts.path)))
    if parts.scheme == "file" and not parts.netloc:
        return Address(unquote(parts.path), "file", "", unquote(parts.path))
    if text.startswith(("/", "./", "../", "~")):
        path = str(Path(text).expanduser().resolve())
        return Address(path, "file", "", path)
    if found := _SHORT.fullmatch(text):
        return Address(text, "ssh", found[1], _path(found[2]))
    hint = "write https://HOST/OWNER/NAME, git@HOST:OWNER/NAME, a path, or the name of a remote"
    raise BadInput(f"{text!r} is not a repository's address", hint=hint)


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        if parts.scheme not in SCHEMES or not parts.hostname or (parts.port != 0 and is_host(parts.hostname)):
            return parts
    except ValueError:  # a bracket that is not closed, a port that is none
        pass
    hint = "write https://HOST/OWNER/NAME; a port is a number from 1 to 65535"
    raise BadInput("the remote's address has no host or port that can be", hint=hint)


def _path(path: str) -> str:
    return path.strip("/").removesuffix(".git")
