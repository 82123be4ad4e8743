"""The transport inside one process: for tests, trials and as the model that the Redis scripts are compared with."""

from .transport import MemoryTransport

__all__ = ["MemoryTransport"]
