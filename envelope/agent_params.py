"""What an agent's task may be told in `input.params`, beside its prompt. Signed, as all of a request is."""

from __future__ import annotations

from .wire import Wire


class AgentParams(Wire):
    """`record`: keep a cassette of the task, which `muster replay` plays."""

    record: bool = False
