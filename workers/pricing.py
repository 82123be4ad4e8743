"""What a worker tells of its model's price, for estimates: whoever submits has no price list."""

from __future__ import annotations

import asyncio

from envelope.agents import ModelPrice

from .llm.listed import listed
from .settings import WorkerSettings


async def price_of(settings: WorkerSettings) -> ModelPrice | None:
    """Of the worker's own model: the operator's price, else the public list's. None: nobody knows it."""
    if row := settings.price_rows.get(settings.model):
        return ModelPrice(input_microusd=row.input, output_microusd=row.output)
    known = await asyncio.to_thread(listed, settings.model) if settings.model else None
    if known is None or known.price is None:
        return None
    return ModelPrice(input_microusd=known.price.input_microusd, output_microusd=known.price.output_microusd)
