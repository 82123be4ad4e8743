"""What a worker counts, for Prometheus. `table.py` lists it all."""

from .counting import WorkerMetrics

__all__ = ["WorkerMetrics"]
