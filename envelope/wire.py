"""The base of everything that travels."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Wire(BaseModel):
    """Frozen; unknown fields are ignored, so that newer senders and older readers get along.

    A field's default is part of the protocol and never changes: fields that were not set are left out of the bytes.
    """

    # built at the first use: a command that only submits never reads most of what there is
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Tagged(Wire):
    """A member of a union, told apart by its `kind`, which is therefore always written."""

    def model_post_init(self, context: Any, /) -> None:
        self.__pydantic_fields_set__.add("kind")
