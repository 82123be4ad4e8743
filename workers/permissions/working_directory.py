"""In which folders the commands of a shell text run: `cd`, `pushd` and `popd` are followed, subshells are left. Pure.

Where a command runs depends on what has succeeded before it (after `cd a; b`, `b` runs in `a` or where the text began),
so a command has as many folders as the text allows; None stands for one that only running it tells. Shells differ in
little here, and where they do, all of them are right. What a program does by itself moves nobody.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from sandbox.container import HOME

from .runners import SOURCES, inner_commands
from .syntax import Node, Unparsable, source_of, walk
from .words import MOVES, SimpleCommand, Word

# The working folder, and behind it those that `pushd` has kept.
Stack = tuple[str | None, ...]
Places = frozenset[Stack]
NOWHERE: Places = frozenset()
ANYWHERE: Places = frozenset({(None,)})

# More are not told apart: a loop that goes a folder deeper with every round has no end of them.
MAX_PLACES = 32
# Of one construct in another; each takes a few calls of Python.
MAX_NESTED = 100
# Loops are followed until nothing new comes of them, and those in them each time.
MAX_STEPS = 20_000

_PATTERN = re.compile(r"[*?\[{\n]")
_ENDS = re.compile(r"exit(?:[ \t]+\d+)?")
_MOVING_OPTION = re.compile(r"-[LPe@]+")
# They decide where `cd` and its kin lead. `$HOME` alone is no harm.
_DECIDES = re.compile(r"\b(?:CDPATH|DIRSTACK|OLDPWD|cdable_vars)\b|(?<!\$)(?<!\$\{)\b(?:HOME|PWD)\b")
# They set a variable whose name is an argument.
_SETTERS = frozenset({"read", "printf", "mapfile", "readarray", "getopts"})
_VENV = re.compile(r"(?:.*/)?bin/activate")  # of a virtual environment: it moves nobody
_SUBSHELLS = frozenset({"subshell", "command_substitution", "process_substitution"})
_SEQUENCES = frozenset({"program", "compound_statement", "do_group", "else_clause"})
_CHAINS = frozenset({"list", "pipeline", "negated_command"})
_LOOPS = frozenset({"while_statement", "for_statement", "c_style_for_statement"})
_STATEMENTS = frozenset(
    {"command", "redirected_statement", "if_statement", "elif_clause", "case_statement", "function_definition"}
    | {"test_command", "declaration_command", "unset_command", "variable_assignment", "variable_assignments"}
    | {*_SUBSHELLS, *_SEQUENCES, *_CHAINS, *_LOOPS}
)


@dataclass(frozen=True, slots=True)
class Ends:
    """Where the shell is after a command that succeeded, and after one that did not."""

    well: Places = NOWHERE
    ill: Places = NOWHERE

    @property
    def either(self) -> Places:
        return _bounded(self.well | self.ill)

    def __or__(self, other: Ends) -> Ends:
        return Ends(_bounded(self.well | other.well), _bounded(self.ill | other.ill))


def folders(places: Places) -> frozenset[str | None]:
    """The working folders alone. Code that seems to be dead is not believed to be."""
    return frozenset(stack[0] for stack in places or ANYWHERE)


def is_obscure(root: Node, commands: Mapping[int, SimpleCommand]) -> bool:
    """Can what `cd` means in this text not be told: is there a function, or a variable that it goes by?"""
    if any(node.type == "function_definition" for node, _ in walk(root)) or _DECIDES.search(source_of(root)):
        return True
    return any(_sets_obscurely(command) for command in commands.values())


def _sets_obscurely(command: SimpleCommand) -> bool:
    if any(word.value is not None and word.value != word and _DECIDES.search(word.value) for word in command.words):
        return True
    if command.name not in _SETTERS:
        return False
    values = [word.value for word in command.words[1:]]
    return None in (values[1:2] if command.name == "printf" and values[0] in (None, "-v") else values)


def destination(word: Word | None, folder: str | None) -> str | None:
    """Where a folder that is named by this word is, for who is in `folder`; without a word the home folder."""
    if word is None:
        return HOME
    path = word.value
    if not path or path == "-" or _PATTERN.search(path):
        return None
    if path.startswith("~"):
        if not word.startswith("~") or not re.fullmatch(r"~(?:[a-z_][\w-]*)?(?:/.*)?", path):
            return None
        path = re.sub(r"^~([^/]*)", lambda user: f"/home/{user[1]}" if user[1] else HOME, path)
    if path.startswith("/"):
        return "/" + posixpath.normpath(path).lstrip("/")
    return None if folder is None else posixpath.normpath(posixpath.join(folder, path))


def moved(command: SimpleCommand, places: Places) -> Ends:
    """Where the shell is after this command, which stands there without anything around it."""
    name = command.name
    if name in SOURCES:
        script = command.words[1].value if len(command.words) > 1 else None
        return Ends(places, places) if script and _VENV.fullmatch(script) else Ends(ANYWHERE, ANYWHERE)
    if name not in MOVES:
        return Ends(places, places)
    return Ends(_bounded(frozenset(each for stack in places for each in _after(command, stack))), places)


def _after(command: SimpleCommand, stack: Stack) -> Iterator[Stack]:
    """The stack after it has succeeded; none where it cannot."""
    words = list(command.words[1:])
    while words and words[0].value and _MOVING_OPTION.fullmatch(words[0].value) and command.name == "cd":
        words.pop(0)
    if words and words[0].value == "--":
        words.pop(0)
    elif words and (words[0].value or "")[:1] in ("-", "+") and words[0].value != "-":
        yield (None,)
        return
    if len(words) > 1:
        yield (None,)
    elif command.name == "cd":
        yield (destination(words[0] if words else None, stack[0]), *stack[1:])
    elif command.name == "popd":
        if words:
            yield (None,)
        elif stack[1:]:
            yield stack[1:]
    elif words:
        yield (destination(words[0], stack[0]), *stack)
    elif stack[1:]:
        yield (stack[1], stack[0], *stack[2:])


def _bounded(places: Places) -> Places:
    return places if len(places) <= MAX_PLACES and all(len(stack) <= MAX_PLACES for stack in places) else ANYWHERE


def places_in(
    root: Node, commands: Mapping[int, SimpleCommand], start: Places, *, obscure: bool
) -> Callable[[Node], Places]:
    """Where the shell is when it comes to a command or a redirection of this text. `obscure`: see `is_obscure`."""
    if not any(_plain(command).name in MOVES | SOURCES for command in commands.values()):
        return lambda node: start
    if obscure:
        return lambda node: ANYWHERE
    text = _Text(commands)
    text.run(root, start)
    return lambda node: text.at.get(node.id, ANYWHERE)


def _plain(command: SimpleCommand) -> SimpleCommand:
    """What the shell itself runs, without `command`, `builtin` and `time` before it."""
    while command.name in ("command", "builtin", "time"):
        inner = next(inner_commands(command), None)
        if inner is None:
            break
        command = inner
    return command


def _parts(node: Node) -> list[Node]:
    return [child for child in node.children if child.type != "comment"]


def _redirected_chain(node: Node) -> Node | None:
    """The list in this statement, which ends in a redirection."""
    body = node
    while body.type == "redirected_statement":
        body = _parts(body)[0]
    return body if body.type == "list" and body.id != node.id else None


@dataclass(slots=True)
class _Text:
    commands: Mapping[int, SimpleCommand]
    at: dict[int, Places] = field(default_factory=dict[int, Places])
    loops: int = 0  # of the same shell that are under way: outside of one, `break` does nothing
    broken: Places = NOWHERE  # where the innermost loop was left in its middle
    resumed: Places = NOWHERE  # where it was begun anew there
    far: Places = NOWHERE  # where one further out was
    nested: int = 0
    steps: int = 0

    def run(self, node: Node, places: Places) -> Ends:
        self._note(node, places)
        self.nested += 1
        self.steps += 1
        if self.nested > MAX_NESTED or self.steps > MAX_STEPS:
            raise Unparsable("it is nested too deeply")
        ends = self._run(node, places)
        self.nested -= 1
        return ends

    def _note(self, node: Node, places: Places) -> None:
        self.at[node.id] = _bounded(self.at.get(node.id, NOWHERE) | places)

    def _run(self, node: Node, places: Places) -> Ends:
        kind = node.type
        if kind == "command":
            return self._command(node, places)
        if kind in _SUBSHELLS:
            loops, self.loops = self.loops, 0
            self._sequence(node.children, places)
            self.loops = loops
            return Ends(places, places)
        if kind in _SEQUENCES:
            return self._sequence(node.children, places)
        if kind == "list":
            return self._list(node, places)
        if kind == "negated_command":
            negated = _parts(node)[-1]
            ends = self.run(negated, ANYWHERE if _redirected_chain(negated) else places)
            return Ends(ends.ill, ends.well)
        if kind == "pipeline":
            return self._pipeline(node, places)
        if kind == "redirected_statement":
            return self._redirected(node, places)
        if kind in ("if_statement", "elif_clause"):
            return self._if(node, places)
        if kind in _LOOPS:
            return self._loop(node, places)
        if kind == "case_statement":
            return self._case(node, places)
        self._inside(node, places)
        return Ends(places, places)

    def _inside(self, node: Node, places: Places) -> None:
        """What stands in a node that moves nobody: substitutions, and what follows a here-document in its line."""
        for inner, _ in walk(node, closed=_STATEMENTS):
            self._note(inner, places)
            if inner.type in _STATEMENTS and inner.id != node.id:
                self.run(inner, places)
        if node.type in _STATEMENTS:  # `walk` has not entered it
            for child in node.children:
                self.run(child, places) if child.type in _STATEMENTS else self._inside(child, places)

    def _command(self, node: Node, places: Places) -> Ends:
        for child in node.children:
            self._note(child, places)
            self.run(child, places) if child.type in _STATEMENTS else self._inside(child, places)
        command = _plain(self.commands[node.id])
        if command.name in ("break", "continue"):
            self._leave(command, places)
            return Ends() if self.loops else Ends(places, places)
        return Ends() if _ENDS.fullmatch(command.text) else moved(command, places)

    def _sequence(self, children: Sequence[Node], places: Places) -> Ends:
        ends = Ends(places, places)
        for child, following in pairwise([*children, None]):
            if child is None or child.type not in _STATEMENTS:
                continue
            now = ends.either
            ends = self.run(child, now)
            if following is not None and following.type == "&":
                ends = Ends(now, NOWHERE)
        return ends

    def _list(self, node: Node, places: Places) -> Ends:
        """`a && b || c` is read as `(a && b) || c`, as deep as it is long."""
        rest: list[tuple[str, Node]] = []  # each with the sign before it, the last first
        while node.type == "list":
            first, sign, last = _parts(node)
            rest.append((sign.type, last))
            node = first
            self._note(node, places)
        ends = self.run(node, places)
        for joint, following in reversed(rest):
            if joint == "&&":
                ends = Ends(NOWHERE, ends.ill) | self.run(following, ends.well)
            else:
                ends = Ends(ends.well, NOWHERE) | self.run(following, ends.ill)
        return ends

    def _pipeline(self, node: Node, places: Places) -> Ends:
        first, *others = [part for part in _parts(node) if part.is_named]
        ends = self.run(first, places)
        if chain := _redirected_chain(first):
            # the grammar reads `cd a && b 2>&1 | c` as `{ cd a && b 2>&1; } | c`
            places = self.at[_parts(chain)[-1].id]
        else:
            ends = Ends(places, places)
        if any(_redirected_chain(part) for part in others):
            places = ANYWHERE
        for part in others:
            last = self.run(part, places).either  # some shells run the last part themselves
            ends |= Ends(places | last, places | last) if part is others[-1] else Ends()
        return ends

    def _redirected(self, node: Node, places: Places) -> Ends:
        body, *redirects = _parts(node)
        ends = self.run(body, places)
        while body.type in _CHAINS:
            body = _parts(body)[-1]
        opened = self.at.get(body.id, places)
        for redirect in redirects:
            self._note(redirect, opened)
            self._inside(redirect, opened)
            # `cat <<E | cd x`: the grammar keeps what follows with the here-document
            inside = [self.commands[inner.id] for inner, _ in walk(redirect) if inner.type == "command"]
            if redirect.type == "heredoc_redirect" and any(_plain(each).name in MOVES | SOURCES for each in inside):
                ends = Ends(ANYWHERE, ANYWHERE)
        return ends

    def _if(self, node: Node, places: Places) -> Ends:
        """The children are a condition, `then`, a body, and what is done else."""
        children = list(node.children)
        then = next(index for index, child in enumerate(children) if child.type == "then")
        otherwise = [child for child in children if child.type in ("elif_clause", "else_clause")]
        body = [child for child in children[then + 1 :] if child not in otherwise]
        condition = self._sequence(children[:then], places)
        ends = self._sequence(body, condition.well)
        now = condition.ill
        for clause in otherwise:
            if clause.type == "else_clause":
                return ends | self.run(clause, now)
            taken = self.run(clause, now)
            ends, now = ends | taken, _bounded(now | taken.ill)
        return ends | Ends(now, now)

    def _leave(self, command: SimpleCommand, places: Places) -> None:
        if len(command.words) > 1:
            self.far = _bounded(self.far | places)
        elif command.name == "break":
            self.broken = _bounded(self.broken | places)
        else:
            self.resumed = _bounded(self.resumed | places)

    def _loop(self, node: Node, places: Places) -> Ends:
        self._words(node, places)
        outer, self.broken, self.resumed = (self.broken, self.resumed), NOWHERE, NOWHERE
        self.loops += 1
        for _ in range(MAX_PLACES):
            ended = self._sequence(node.children, places).either
            after = _bounded(places | ended | self.resumed | self.far)
            if after == places:
                break
            places = after
        else:
            places = ANYWHERE
            self._sequence(node.children, places)
        ends = _bounded(places | self.broken)
        self.broken, self.resumed = outer
        self.loops -= 1
        return Ends(ends, ends)

    def _case(self, node: Node, places: Places) -> Ends:
        self._words(node, places)
        ends = Ends(places, places)
        for child in node.children:
            if child.type == "case_item":
                self._words(child, places)
                ends |= self._sequence(child.children, places)
        return ends

    def _words(self, node: Node, places: Places) -> None:
        """What stands in its words and patterns."""
        for child in node.children:
            if child.type not in _STATEMENTS:
                self._inside(child, places)
