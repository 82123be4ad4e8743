"""What code and values are, without a question to them: for the digest, in whose namespace this is executed first."""

# Objects of any kind are looked at, in any Python from 3.8 on, and what is imported here every process pays for.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
import re
import types
from collections import deque
from contextlib import suppress
from hashlib import blake2b
from itertools import chain, islice
from marshal import dumps as exact
from typing import Any, Iterator

SCALARS = (int, float, complex, str, bytes, bool, type(None))
MAX_HELD = 1000  # that are looked at in one value, and in all values of a file
CHANGING = re.compile(r"0x[0-9a-f]+|\d{5,}|/tmp/[^\s'\"]*|/var/[^\s'\"]*")  # in code that is made anew


# What an object is, without a question to it: a proxy or a module that is loaded late answers by code of the project.
fields_of_class, name_of, module_of, bases_of = [
    vars(type)[name].__get__ for name in ("__dict__", "__name__", "__module__", "__bases__")
]


def is_a(value: Any, kinds: Any) -> bool:
    return issubclass(type(value), kinds)


def home_of(value: Any) -> Any:
    """The name of the module that it, or else its class, was made in."""
    if is_a(value, (types.FunctionType, types.BuiltinFunctionType)):
        return value.__module__
    return module_of(value if is_a(value, type) else type(value))


def fields(value: Any) -> Any:
    """Of a module, or another object that has some; of none where a class of the project's says what they are."""
    try:
        return object.__getattribute__(value, "__dict__")
    except Exception:
        return {}


def short(value: object) -> str:
    return blake2b(repr(value).encode("utf-8", "backslashreplace"), digest_size=6).hexdigest()


class Code:
    """Digests of code, whatever line and file it stands in. Each code object is looked at once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[types.CodeType, str]] = {}

    def of(self, code: types.CodeType) -> str:
        known = self._known.get(id(code))
        if known is None:
            is_made = code.co_filename.startswith("<")
            counts = code.co_argcount, code.co_kwonlyargcount, code.co_flags
            consts = [self._constant(value, is_made) for value in code.co_consts]
            names = code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
            digest = blake2b(code.co_code, digest_size=6)
            digest.update(repr((counts, consts, names)).encode("utf-8", "backslashreplace"))
            known = self._known[id(code)] = code, digest.hexdigest()
        return known[1]

    def _constant(self, value: object, is_made: bool) -> object:
        kind = type(value)
        if kind is str:
            return CHANGING.sub("", str(value)) if is_made else value
        if isinstance(value, types.CodeType):
            return self.of(value)
        if isinstance(value, tuple):
            return [self._constant(one, is_made) for one in value]
        if isinstance(value, frozenset):
            return {"set": sorted(repr(one) for one in value)}
        return value  # a number, bytes and the like say themselves what they are

    def function(self, function: types.FunctionType, depth: int = 0) -> str:
        """With its defaults, as far as they are plain, and functions of the same file that it closes over."""
        given = [scalar(value) for value in function.__defaults__ or ()]
        named = sorted((name, scalar(value)) for name, value in (function.__kwdefaults__ or {}).items())
        inner = [
            self.function(one, depth + 1)
            for one in contents(function)
            if depth < 4 and type(one) is types.FunctionType and one is not function
            if one.__code__.co_filename == function.__code__.co_filename
        ]
        return short((self.of(function.__code__), given, named, inner))


def scalar(value: object) -> str:
    return repr(value) if type(value) in SCALARS else type(value).__name__


def contents(function: types.FunctionType) -> list[object]:
    """What it closes over; a cell may be empty."""
    found: list[object] = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            continue
    return found


def functions_in(value: Any, depth: int = 4) -> Iterator[types.FunctionType]:
    """Those that a function, method, property or what decorates one leads to, the outer before the inner."""
    if is_a(value, types.FunctionType):
        yield value
    if not depth:
        return
    inner: list[object] = []
    if is_a(value, types.FunctionType):
        inner = [vars(value).get("__wrapped__"), *contents(value)]
    elif is_a(value, (types.MethodType, classmethod, staticmethod)):
        inner = [value.__func__]
    elif is_a(value, property):
        inner = [value.fget, value.fset]
    elif is_a(value, functools.partial):
        inner = [value.func]
    elif not is_a(value, (type, types.ModuleType)) and home_of(value) != "builtins":
        inner = list(fields(value).values()) if type(fields(value)) is dict else []
    for one in inner:
        if is_a(one, (types.FunctionType, types.MethodType, functools.partial)):
            yield from functions_in(one, depth - 1)


def members(module: Any) -> Iterator[tuple[str, object]]:
    """A module's own functions and classes, and what stands in those classes, by name."""
    own = fields(module)
    for key, value in list(own.items()):
        if callable(value):
            yield key, value
        if is_a(value, type) and home_of(value) == own.get("__name__") and name_of(value) == key:
            yield from ((key + "." + inner, one) for inner, one in list(fields_of_class(value).items()) if is_code(one))


def is_code(value: object) -> bool:
    return callable(value) or is_a(value, (classmethod, staticmethod, property))


def code_in(value: object) -> tuple[object, ...]:
    """The code of a function or what wraps one: it can be changed while the function stays."""
    value = getattr(value, "fget", value) if isinstance(value, property) else getattr(value, "__func__", value)
    return (value.__code__, value.__defaults__) if isinstance(value, types.FunctionType) else ()


def bytes_of(value: Any) -> bytes | None:
    """Of plain values, however deep: the same for the same values of the very same types. None of all others."""
    try:
        return exact(value, 0)
    except (ValueError, RecursionError):
        return None


def held(value: Any, home: Any) -> dict[object, object] | None:
    """What a value holds, by key or place, and is another value if that is replaced: of containers, of namespaces, and
    of objects whose classes were made in the module `home`. None of what is to be known by its identity alone."""
    found: dict[object, object] = {}
    kind = type(value)
    if is_a(value, (list, tuple, deque)):
        found.update(enumerate(next(one for one in (list, tuple, deque) if is_a(value, one)).__iter__(value)))
    elif is_a(value, dict):
        found.update(enumerate(chain.from_iterable(dict.items(value))))
    elif not is_a(value, types.SimpleNamespace) and any(home_of(cls) != home for cls in type.mro(kind)[:-1]):
        return None
    own = fields(value)
    found.update(own if type(own) is dict else {})
    for cls in type.mro(kind) if home_of(value) == home else ():
        for name, slot in fields_of_class(cls).items():
            if type(slot) is types.MemberDescriptorType:
                with suppress(AttributeError):
                    found[name] = slot.__get__(value, kind)
    return found


def plain(value: Any, home: Any = "", depth: int = 6) -> str:
    """A value, as far as it can be told what it is; else which object."""
    if type(value) in SCALARS:
        return repr(value)
    inner = held(value, home) if depth else None
    if inner is None:
        return "%s at %x" % (type(value).__name__, id(value))
    told = ["%r: %s" % (key, plain(one, home, depth - 1)) for key, one in islice(inner.items(), MAX_HELD)]
    return "%s{%s}" % (type(value).__name__, ", ".join(told))


def origin(value: Any) -> str:
    kind = value if hasattr(value, "__qualname__") else type(value)
    return "%s.%s" % (getattr(kind, "__module__", ""), kind.__qualname__)
