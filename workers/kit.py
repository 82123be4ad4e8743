"""What a worker's agents work with: shared by all attempts of its process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from transport.base import Transport
from transport.outbox import Outbox

from .agents.base import Agent
from .equipment import Equipment
from .llm.limited import Limiter
from .models import Models
from .subagents.children import PARK_AFTER_S
from .web.access import WebAccess


@dataclass(frozen=True, slots=True)
class Kit:
    """`agents` are all that a task may name; `equipment` is what the operator has given them."""

    transport: Transport
    outbox: Outbox
    models: Models
    agents: Mapping[str, Agent]
    equipment: Equipment
    limiter: Limiter
    ask_timeout_ms: int  # how long people may think about what they are asked
    web: WebAccess
    subagent_depth: int = 1  # levels of subagents below a task that a person started
    park_after_s: float = PARK_AFTER_S  # so long a caller waits for its subagents with its slot and sandbox held
