"""Parts of what callers send, as strict as its outside: a key that is not known was meant for something.

Between the fleet's own processes such a key is passed over, for one of them may be newer than the other.
"""

from __future__ import annotations

from pydantic import ConfigDict

from envelope.budget import Budget
from envelope.messages import Attachment, ContextRef, Workspace

STRICT = ConfigDict(extra="forbid")


class NewBudget(Budget):
    model_config = STRICT


class NewWorkspace(Workspace):
    model_config = STRICT


class NewReference(ContextRef):
    model_config = STRICT


class NewAttachment(Attachment):
    model_config = STRICT
