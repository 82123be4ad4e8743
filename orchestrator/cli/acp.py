"""`muster acp`: the agent that an editor starts."""

from __future__ import annotations

import asyncio
import logging
import sys
from importlib.util import find_spec

from ..errors import BadInput
from ..looking import GATES, SETS_UP, require_looking
from .console import note
from .fleet import open_fleet
from .options import Allow, Budget, Deadline, Gate, Model, ReadOnly, Setup, grants, microusd, settings_for
from .person import person

INSTALL = "install it with: pip install 'muster[acp]'"


def acp(
    gate: Gate = None,
    setup: Setup = None,
    budget: Budget = None,
    deadline: Deadline = None,
    model: Model = "",
    allow: Allow = None,
    read_only: ReadOnly = False,
) -> None:
    """Be the agent of an editor that speaks the Agent Client Protocol: it starts this, and talks over stdin and stdout.

    Each prompt is a goal of its own, with these limits. How to set editors up: docs/editors.md.
    """
    if find_spec("acp") is None:
        raise BadInput("the library of the Agent Client Protocol is not installed", hint=INSTALL)
    from ..acp.goals import Terms  # all that follows takes longer to load than a command may
    from ..acp.serve import serve

    settings = settings_for(read_only=read_only)
    terms = Terms(tuple(gate or ()), tuple(setup or ()), grants(allow), microusd(budget), deadline, model)
    if settings.read_only:
        require_looking({GATES: gate, SETS_UP: setup}, terms.allow)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    if sys.stdin.isatty():
        note("this is for an editor, which starts it; see docs/editors.md (Ctrl-D ends it)")
    asyncio.run(serve(lambda: open_fleet(settings), settings.state_dir, terms, by=person("acp")))
