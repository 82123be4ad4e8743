"""The transport on Redis 6.2 or newer: one atomic script per operation, on the server's clock."""

from .transport import RedisTransport, connect_redis

__all__ = ["RedisTransport", "connect_redis"]
