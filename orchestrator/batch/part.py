"""What all parts of a batch file have in common."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from envelope.messages import MAX_DEADLINE_MS

MAX_DEADLINE_S = MAX_DEADLINE_MS // 1000


def _file_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}", name):
        raise ValueError("use letters, digits, `_`, `-` and `.`, at most 80 of them")
    return name


Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[tuple[Text, ...], Field(min_length=1)]
FileName = Annotated[str, AfterValidator(_file_name)]
Seconds = Annotated[int, Field(gt=0, le=MAX_DEADLINE_S)]


class Part(BaseModel):
    """Unknown keys are refused: a person wrote them and meant something."""

    model_config = ConfigDict(frozen=True, extra="forbid")
