"""How a change is published, as a person says it: in a batch file's `[publish]`, or by options."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from .limits import Limits


class Form(StrEnum):
    BRANCH = "branch"  # of the local repository
    PATCHES = "patches"  # a folder with a file for each commit
    BUNDLE = "bundle"  # one file that git fetches from
    PUSH = "push"  # a branch of a remote repository
    REQUEST = "request"  # the same, with a pull or merge request


OUTSIDE = frozenset({Form.PUSH, Form.REQUEST})


def _title(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a title is one line")
    return text


DEFAULT_REMOTE = "origin"


class Terms(Limits):
    """`remote` is a name that the local repository knows, or an address; what was fetched has only its own. `forge`
    names a table `[forges.NAME]` of the user's settings; empty: the one that the remote's host belongs to. `into` is
    the branch that a request is for; empty: the repository's own default. Files go into `folder`.

    What nobody has verified stays here, unless `unverified` says otherwise; and what everybody begins with, the
    remote's default branch, is not pushed to, unless `default_branch` does.
    """

    to: Form = Form.BRANCH
    remote: Annotated[str, Field(min_length=1, max_length=2_000, pattern=r"^[^-\s][^\s]*$")] = DEFAULT_REMOTE
    forge: str = ""
    into: Annotated[str, Field(max_length=200)] = ""
    title: Annotated[str, Field(max_length=200), AfterValidator(_title)] = ""
    draft: bool = True
    folder: Annotated[str, Field(min_length=1)] = "published"
    unverified: bool = False
    default_branch: bool = False

    def lets_go(self, *, verified: bool, is_judged: bool) -> bool:
        """What leaves this machine is verified, unless told otherwise; here, nothing that a gate has refused.

        `is_judged`: a gate was to prove it.
        """
        return verified or self.unverified or (self.to not in OUTSIDE and not is_judged)
