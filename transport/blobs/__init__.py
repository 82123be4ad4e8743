"""Large things, by the SHA-256 of their content: written once, checked whenever they are read.

How long they stay is in `life.py`; the stores differ in where, and not in what they promise.
"""

from .content import MAX_BLOB_BYTES, SMALL_BYTES, check_size, checked
from .directory import DirectoryBlobs
from .life import life_ms
from .memory import MemoryBlobs
from .place import open_blobs
from .tiers import TieredBlobs

__all__ = [
    "MAX_BLOB_BYTES",
    "SMALL_BYTES",
    "DirectoryBlobs",
    "MemoryBlobs",
    "TieredBlobs",
    "check_size",
    "checked",
    "life_ms",
    "open_blobs",
]
