"""What a worker tells of its model's price, for estimates: whoever submits has no price list."""

from __future__ import annotations

from envelope.agents import ModelPrice

from .llm.prices import Price
from .models import Models
from .settings import WorkerSettings


async def price_of(settings: WorkerSettings) -> ModelPrice | None:
    """Of the worker's own model, as its tasks will pay. None: nobody knows it."""
    prices = {model: Price(row.input, row.output) for model, row in settings.price_rows.items()}
    models = Models(settings.model, settings.model_base_url, prices=prices)
    price = await models.price(settings.model) if settings.model else None
    return price and ModelPrice(input_microusd=price.input_microusd, output_microusd=price.output_microusd)
