"""When changes may go out, and how many at once: of one publication, or of a whole forge."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from .windows import read_window


def _window(text: str) -> str:
    read_window(text)
    return text


class Limits(BaseModel):
    """Nothing goes out but within one of the `windows` (`mon-fri 09:00-17:00 Europe/Berlin`), and no new request while
    `max_open` of ours are open in its repository, or `max_open_per_owner` in all of its owner's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    windows: tuple[Annotated[str, AfterValidator(_window)], ...] = ()
    max_open: Annotated[int, Field(gt=0)] | None = None
    max_open_per_owner: Annotated[int, Field(gt=0)] | None = None
