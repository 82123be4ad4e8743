"""What an orchestrator process counts, and what it sees of the fleet. `table.py` lists it all."""

from .counting import OrchestratorMetrics

__all__ = ["OrchestratorMetrics"]
