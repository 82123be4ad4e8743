"""A process that publishes once and may be killed anywhere: arguments are JSON on stdin."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from orchestrator.publication.book import Book, Publication
from orchestrator.publication.forges.http import Pace
from orchestrator.publication.publisher import Publisher
from orchestrator.publication.settings import ForgeSettings
from orchestrator.publication.telling import comment
from repo.mirror import Mirror


async def main() -> None:
    told = json.load(sys.stdin)
    publisher = Publisher(
        Book(Path(told["book"])), {"hub": ForgeSettings.model_validate(told["forge"])}, Pace(gap_s=0.0)
    )
    made = await publisher.publish(Publication.model_validate(told["wanted"]), Mirror(Path(told["mirror"])))
    await comment(publisher, made, "hello")


asyncio.run(main())
