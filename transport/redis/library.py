"""What the redis library loads and we never use is left unloaded: that is half of the time that it takes to load."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

# Reads the tokens of identity providers; all of cryptography comes along.
UNUSED = "jwt"


class Later(ModuleType):
    """Stands for a module until something of it is used, and then passes on what the module has.

    (`importlib.util.LazyLoader` does the same, but on Python 3.11 already `import name` counts as a use.)
    """

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def load_later(name: str) -> None:
    """`import name` loads nothing from now on, unless it has been loaded before."""
    if name not in sys.modules and (spec := find_spec(name)) is not None:
        sys.modules[name] = module = Later(name)
        module.__spec__ = spec


load_later(UNUSED)
