"""The transport on Redis 6.2 or newer: one atomic script per operation, on the server's clock."""

from .library import UNUSED, load_later

load_later(UNUSED)

from .transport import RedisTransport, connect_redis  # noqa: E402 - redis is loaded with what it does not need

__all__ = ["RedisTransport", "connect_redis"]
