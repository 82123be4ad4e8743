"""How a change is published, as a person says it: in a batch file's `[publish]`, or by options."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from .windows import read_window


class Form(StrEnum):
    BRANCH = "branch"  # of the local repository
    PATCHES = "patches"  # a folder with a file for each commit
    BUNDLE = "bundle"  # one file that git fetches from
    PUSH = "push"  # a branch of a remote repository
    REQUEST = "request"  # the same, with a pull or merge request


OUTSIDE = frozenset({Form.PUSH, Form.REQUEST})


def _window(text: str) -> str:
    read_window(text)
    return text


def _title(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a title is one line")
    return text


class Terms(BaseModel):
    """`remote` is a name that the local repository knows, or an address. `forge` names a table `[forges.NAME]` of the
    user's settings; empty: the one that the remote's host belongs to. `into` is the branch that a request is for;
    empty: the repository's own default. Files go into `folder`.

    Nothing goes out but within one of the `windows` (`mon-fri 09:00-17:00 Europe/Berlin`), and no new request while
    `max_open` of ours are open in its repository, or `max_open_per_owner` in all of its owner's.
    What nobody has verified stays here, unless `unverified` says otherwise.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    to: Form = Form.BRANCH
    remote: Annotated[str, Field(min_length=1, max_length=2_000, pattern=r"^[^-\s][^\s]*$")] = "origin"
    forge: str = ""
    into: Annotated[str, Field(max_length=200)] = ""
    title: Annotated[str, Field(max_length=200), AfterValidator(_title)] = ""
    draft: bool = True
    folder: Annotated[str, Field(min_length=1)] = "published"
    windows: tuple[Annotated[str, AfterValidator(_window)], ...] = ()
    max_open: Annotated[int, Field(gt=0)] | None = None
    max_open_per_owner: Annotated[int, Field(gt=0)] | None = None
    unverified: bool = False
