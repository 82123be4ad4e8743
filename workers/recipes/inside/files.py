"""The project's own files: which are tests, what stands in them, who writes them. Executed in one with `digest.py`."""

# Objects of any kind are looked at, in any Python from 3.8 on, and what is imported here every process pays for.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import os
import sys
import types
from itertools import chain
from opcode import opmap
from os import lstat
from typing import Any, Iterator

TYPE_CHECKING = False  # it stands in the namespace already
if TYPE_CHECKING:
    from .code import Code, bases_of, fields, functions_in, home_of, is_a, members, name_of, origin, short
    from .runner import IN_LIBRARY

ASSERTION = opmap.get("LOAD_ASSERTION_ERROR")


class Files:
    """The project's own files: which of them are tests, and what stands in them."""

    def __init__(self, root: str, code: Code, began_ns: int) -> None:
        """`began_ns`: what has changed later than that has changed as the tests ran."""
        self._began_ns = began_ns
        self._roots = [root.rstrip("/") + "/", os.getcwd().rstrip("/") + "/"]
        self._code = code
        self._paths: dict[str, str] = {}
        self.read: set[tuple[str, str]] = set()  # files that are no code, and from which one they were opened
        self._written: dict[str, str] = {}  # what was there and is another now, and which file did it
        self._made: set[str] = set()

    def path(self, name: Any) -> str:
        """As seen from the project; empty for what is none of its files."""
        if type(name) is not str or name.startswith("<"):
            return ""
        if not name.startswith("/"):
            name = os.path.abspath(name)
        if name not in self._paths:
            path = next((name[len(root) :] for root in self._roots if name.startswith(root)), "")
            is_own = "site-packages/" not in path and not path.startswith((".git/", ".venv/"))
            self._paths[name] = path if is_own else ""
        return self._paths[name]

    def opened(self, name: Any, flags: Any) -> None:
        """A file that is read, from which of the project's own: of all frames the innermost."""
        if type(name) is not str or not isinstance(flags, int):
            return
        if flags & 3:
            self.replaced(name)
        elif not name.endswith((".py", ".pyc")) and (path := self.path(name)) and (opener := self.asks()):
            self.read.add((path, opener))

    def replaced(self, name: Any) -> None:
        """Is about to become another. What was not there before belongs to whoever makes it."""
        path = self.path(name)
        if not path or path in self._written or path in self._made or path.endswith(".pyc"):
            return
        try:
            lstat(name)
        except (OSError, ValueError):
            self._made.add(path)
            return
        if writer := self.asks():
            self._written[path] = writer

    def asks(self) -> str:
        frame: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while frame is not None:
            if path := self.path(frame.f_code.co_filename):
                return path
            frame = frame.f_back
        return ""

    def written(self, needed: set[str], tests: set[str]) -> Iterator[str]:
        """Files that are `needed`, or what these stand in, which others than the tests themselves have replaced."""
        for path in needed:
            times = [os.stat(root + path).st_ctime_ns for root in self._roots if os.path.exists(root + path)]
            if any(time > self._began_ns for time in times) and self._written.get(path) not in tests:
                yield path
        for path, writer in self._written.items():
            if writer not in tests and any(one == path or one.startswith(path + "/") for one in needed):
                yield path

    def modules(self) -> Iterator[tuple[str, Any]]:
        modules: list[Any] = list(sys.modules.values())
        for module in modules:
            if is_a(module, types.ModuleType) and (path := self.path(fields(module).get("__file__"))):
                yield path, module

    def loaded(self) -> Iterator[tuple[str, str]]:
        """Names of modules, and which of the project's files each is: none for those of others.

        Of a package its own name alone, and of what stands in a namespace the shortest name that has a file.
        """
        spaces: set[str] = set()
        names = [name for name in list(sys.modules) if type(name) is str]
        deep = sorted((name for name in names if "." in name), key=len)
        for name in chain((name for name in names if "." not in name), deep):
            if "." in name and name.rpartition(".")[0] not in spaces:
                continue
            own = fields(sys.modules.get(name))
            file = own.get("__file__")
            if type(file) is str:
                path = self.path(file)
                if path or IN_LIBRARY.search(file) or not file.startswith(("/tmp/", "/var/tmp/")):  # noqa: S108 - made by tests
                    yield name, path
            elif "__path__" in own:
                spaces.add(name)

    def functions(self, path: str, module: Any, *, all_of_them: bool, classes: set[int]) -> dict[str, str]:
        """Name → digest of those that stand in the file; of others than tests only what asserts.

        In a class, of a function that stands elsewhere no more than that; and whether it is one of the `classes` that
        tests have their methods from. In others the project's own code may make methods, such as a dataclass has.
        """
        found: dict[str, set[str]] = {}
        for key, value in members(module):
            for function in functions_in(value):
                code = function.__code__
                if self.path(code.co_filename) == path and (all_of_them or asserts(code)):
                    found.setdefault(key, set()).add(self._code.function(function))
                elif all_of_them and "." in key:
                    found.setdefault(key, set())
            if all_of_them and is_a(value, type) and home_of(value) == fields(module).get("__name__"):
                found.setdefault("class " + key, set()).add(self._kind_of(value))
        own = {key for key in found if id(fields(module).get(key.partition(".")[0])) in classes}
        return {
            key: "".join(sorted(digests)) or ("elsewhere" if key in own else "made") for key, digests in found.items()
        }

    def _kind_of(self, cls: Any) -> str:
        """Its bases: what one says itself of where it is from is believed if it is found there. Of the project's own
        no more than that they are, for they may be what the change is about."""
        parts: list[object] = []
        kinds: Any = type(cls), *bases_of(cls)
        for base in kinds:
            home = fields(sys.modules.get(home_of(base)))
            if self.path(home.get("__file__")):
                parts.append("own")
            else:
                parts.append((str(home_of(base)).partition(".")[0], home.get(name_of(base)) is base))
        return short(parts)

    def of_test(self, value: Any, path: str) -> str:
        """Of a test's functions. That others of the project stand around it counts, which ones those are does not: they
        may be what the change is about. What others stand around it counts by name."""
        parts: list[str] = []
        is_wrapped = False
        for function in {id(one): one for one in functions_in(value)}.values():  # a wrapper may hold one in two ways
            file = function.__code__.co_filename
            place = self.path(file)
            if place == path or file.startswith("<"):
                parts.append(self._code.function(function))
            elif place:
                is_wrapped = True
            else:
                parts.append(origin(function))
        return short((is_wrapped, parts))


def asserts(code: types.CodeType) -> bool:
    """By its name, or by what it does."""
    does = ASSERTION is not None and ASSERTION in code.co_code[::2]
    return does or code.co_name.startswith("assert") or "AssertionError" in code.co_names
