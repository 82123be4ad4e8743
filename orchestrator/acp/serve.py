"""The agent on this process's standard input and output, for as long as its editor is there."""

from __future__ import annotations

from pathlib import Path

from acp import run_agent

from .agent import EditorAgent
from .book import Book
from .fleet import Opening, lazy_fleet
from .goals import Terms
from .stdio import stdio


async def serve(opening: Opening, state_dir: Path, terms: Terms, *, by: str) -> None:
    """`opening`: how a fleet is reached. Returns when the input ends."""
    async with stdio() as transport, lazy_fleet(opening) as fleet:
        agent = EditorAgent(fleet, Book(state_dir), terms, by)
        # list, close, resume and fork are of the protocol's first version, and the library's flag is behind that
        try:
            await run_agent(agent, transport, use_unstable_protocol=True)  # pyright: ignore[reportArgumentType]
        finally:
            await agent.close()
