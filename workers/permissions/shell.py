"""A shell text as the simple commands that it runs. Pure.

`commands` tells what is written: every command anywhere in the text, in lists, pipes, subshells, loops, functions,
substitutions and here-documents, each once.

`read` is what calls are judged by, and conservative: what is not plain is not guessed. Beyond what is written as a
command of its own, it tells these, after the one that holds them:

- the command without the assignments and redirections before its name (`A=1 rm x`: also `rm x`);
- by its bare name, a program that is named by its whole path (`/bin/rm x`: also `rm x`);
- what a runner runs (`sudo rm x`, `xargs rm`, `timeout 5 rm x`, `find . -exec rm {} +`: also the `rm`; see `runners`);
- the commands in the text of `sh -c`;
- what sets a variable that something else may read (`PATH=.`, `read PATH`, `for PATH in …`; see `variables`).

Code in an argument, and options that say which program is run, are told as `code` beside that (see `arguments`).

`Unparsable` are for it a name that is an expansion, a wildcard or quoted; a runner with options that are not in its
table; `eval` and its kin; a shell that reads its text from its input; a redirection without a command; and all that
`syntax` does not believe.

It also tells in which folders each of them runs, and each redirection opens its file (see `working_directory`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sandbox.base import WORKSPACE

from .arguments import is_open
from .arithmetic import check_arithmetic, doubtful_names, posix_reading, set_in_arithmetic
from .rules import CODE
from .runners import folder_option, inner_commands, program, script
from .syntax import MAX_BYTES, Node, Unparsable, is_arithmetic, parse, source_of, tree, walk
from .variables import is_own, set_by_command, set_by_node, splits_a_line
from .words import MOVES, SimpleCommand, Word, check_name, value_of
from .working_directory import ANYWHERE, Places, destination, folders, is_obscure, moved, places_in

__all__ = ["CommandLine", "NamedFile", "SimpleCommand", "Unparsable", "commands", "read"]

# `sudo env nice …`, `sh -c "sh -c …"`: as many may stand in each other.
MAX_LAYERS = 8
# All that is judged of one text, a command within others again in each of them. It bounds the time of whatever looks at
# a command: that is a worker's event loop, in which the tasks of others wait.
MAX_JUDGED_CHARS = 12 * MAX_BYTES
PARSED_WEIGHT = 4  # of a text, against a command: a grammar reads it
_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_NO_WORDS = _REDIRECTS.union(
    ("variable_assignment", "file_descriptor", "comment", "heredoc_start", "heredoc_body", "heredoc_end"),
    ("command", "subshell", "pipeline", "list", "redirected_statement"),  # `time (a)`, and what follows `<<E` in a line
)
# `i++`, `i+=2`, `3`: names that stand in arithmetic, and that no program has.
_ONLY_COUNTS = re.compile(r"(?:\w+(?:\+\+|--|[-+*/%&|^]?=[^/]*)|\d+)$")
# Whose redirection is that of the last command in them.
_CHAINS = frozenset({"list", "pipeline", "negated_command"})


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A path as a redirection names it, and the folders in which that may happen (None: anywhere)."""

    path: str
    folders: frozenset[str | None]


@dataclass(frozen=True, slots=True)
class CommandLine:
    """`files`: what its redirections name, wherever they stand, as far as the text tells. `code`: those of the
    commands that are approved whole or not at all, as patterns (see `rules.CODE`)."""

    commands: tuple[SimpleCommand, ...] = ()
    files: tuple[NamedFile, ...] = ()
    code: tuple[str, ...] = ()


@dataclass(slots=True)
class _Work:
    """What is left of the work that a whole text may be, with all the texts in it."""

    left_chars: int = MAX_JUDGED_CHARS

    def take(self, chars: int) -> None:
        self.left_chars -= chars
        if self.left_chars < 0:
            raise Unparsable("too many commands stand in each other; write it to a file and run that")


@dataclass(frozen=True, slots=True)
class _Around:
    """What a text stands in. `layer`: how many others; `is_obscure`: can it not be told what `cd` means
    there? `held`: variables that may hold something that is no number."""

    places: Places
    layer: int = 0
    is_obscure: bool = False
    held: frozenset[str] = frozenset()
    work: _Work = field(default_factory=_Work)


def commands(text: str) -> list[SimpleCommand]:
    """The commands of a text as they are written, in its order; but for those that only move to another folder.

    `Unparsable` when the text is no shell text.

    >>> [(command.text, command.always) for command in commands("cd src && git log $(sudo ls -l) > n.txt")]
    [('git log $(sudo ls -l) > n.txt', 'git log *'), ('sudo ls -l', 'sudo *')]
    """
    root, source = tree(text), text.encode()
    owners = _redirection_owners(root)
    found = (_command(node, source, owners.get(node.id)) for node, _ in walk(root) if node.type == "command")
    return [command for command in found if not command.only_moves]


def read(text: str, folder: str = WORKSPACE) -> CommandLine:
    """All that a text runs, and the files that it names; `Unparsable` when it is not plain what. `folder`: where the
    shell begins, as a whole path."""
    return _read(text, _Around(frozenset({(folder,)})))


def _read(text: str, around: _Around) -> CommandLine:
    root = parse(text)
    around.work.take(PARSED_WEIGHT * len(text))
    source, owners = text.encode(), _redirection_owners(root)
    nodes = [node for node, _ in walk(root)]
    found = {node.id: _command(node, source, owners.get(node.id)) for node in nodes if node.type == "command"}
    held = around.held | doubtful_names(root, found.values())
    check_arithmetic(root, found.values(), held)
    obscure = around.is_obscure or is_obscure(root, found)
    at = places_in(root, found, around.places, obscure=obscure)
    settings = _settings(root, set_in_arithmetic(root))
    here = replace(around, is_obscure=obscure, held=held)
    parts = (_read_node(node, found, replace(here, places=at(node))) for node in nodes)
    return _joined([*parts, CommandLine(settings)])


def _read_node(node: Node, found: Mapping[int, SimpleCommand], around: _Around) -> CommandLine:
    """What this node itself adds, without those inside of it."""
    match node.type:
        case "command":
            return _unfolded(found[node.id], around)
        case "file_redirect":
            target = next((child for child in node.named_children if child.type != "file_descriptor"), None)
            value = value_of(target) if target else None
            # `2>&1`: the number is a descriptor
            if value is None or (target and target.type == "number"):
                return CommandLine()
            return CommandLine(files=(NamedFile(value, folders(around.places)),))
        case "redirected_statement" if node.children[0].type in _REDIRECTS:
            raise Unparsable("there is a redirection without a command")
        case "compound_statement" if is_arithmetic(node):
            line = _read(posix_reading(node), replace(around, layer=around.layer + 1))
            return replace(line, commands=tuple(each for each in line.commands if not _ONLY_COUNTS.match(each.name)))
        case "variable_assignment" if node.parent and node.parent.type == "command":
            return CommandLine()  # judged with its command
        case _:
            return CommandLine(_settings(node, set_by_node(node)))


def _settings(node: Node, names: Iterable[str]) -> tuple[SimpleCommand, ...]:
    """Each setting of a variable that may matter, as text for a rule."""
    reaching = sorted({name for name in names if not is_own(name)})
    text = source_of(node)
    if node.type == "variable_assignment":
        return (SimpleCommand(text, ()),) if reaching else ()
    return tuple(SimpleCommand(f"{name}=", ()) for name in reaching)


def _unfolded(command: SimpleCommand, around: _Around) -> CommandLine:
    """The command, and all that it runs by being run."""
    around.work.take(len(command.text))
    check_name(command)
    if around.layer > MAX_LAYERS:
        raise Unparsable("too many commands run each other")
    places = around.places
    leads = folders(moved(command, places).well or places) if command.name in MOVES else frozenset[str | None]()
    placed = replace(command, folders=folders(places), leads=leads)
    plainer = _plainer(command)
    inner = [plainer] if plainer else list(inner_commands(command))
    text = None if plainer else script(command)
    below = replace(around, places=places if plainer else _placed_by(command, places), layer=around.layer + 1)
    settings = [SimpleCommand(f"{name}=", ()) for name in sorted(set(set_by_command(command))) if not is_own(name)]
    judged = [] if plainer and _assigns_its_own(command) else [placed]
    is_code = command.carries_code or (program(command) == "xargs" and any(map(_is_open, inner)))
    code = (f"{CODE}{command.text}",) if is_code else ()
    return _joined(
        [
            CommandLine((*judged, *settings), code=code),
            *(_unfolded(each, below) for each in inner),
            CommandLine() if text is None else _read(text, below),
        ]
    )


def _placed_by(command: SimpleCommand, places: Places) -> Places:
    """Where a command runs what stands in its arguments."""
    option = folder_option(command)
    if option is None:
        return places
    return ANYWHERE if option.value is None else frozenset((destination(option, stack[0]),) for stack in places)


def _plainer(command: SimpleCommand) -> SimpleCommand | None:
    """The same without what stands before the name, or before its last slash when the path is a whole one."""
    name = command.words[0]
    if name.at:
        return command.part(0)
    if not name.startswith("/"):
        return None
    base = program(command)
    cut = len(name) - len(base)
    moved = (word.moved(cut) for word in command.words[1:])
    return SimpleCommand(command.text[cut:], (Word(base, base, 0), *moved), command.redirected)


def _is_open(command: SimpleCommand) -> bool:
    return is_open(command.values)


def _assigns_its_own(command: SimpleCommand) -> bool:
    """Is all that stands before its name assigned to names of the text's own?"""
    before = command.text[: command.words[0].at]
    return splits_a_line(command) or (
        bool(command.assigned) and all(map(is_own, command.assigned)) and not re.search(r"[<>]", before)
    )


def _joined(lines: Iterable[CommandLine]) -> CommandLine:
    parts = list(lines)
    return CommandLine(
        tuple(command for part in parts for command in part.commands),
        tuple(file for part in parts for file in part.files),
        tuple(code for part in parts for code in part.code),
    )


def _redirection_owners(root: Node) -> dict[int, Node]:
    """Command → the statement that holds its redirections."""
    owners: dict[int, Node] = {}
    for node, _ in walk(root):
        if node.type == "redirected_statement":
            last = node.children[0]
            while last.type in _CHAINS:
                last = last.named_children[-1]
            owners[last.id] = node
    return owners


def _command(node: Node, source: bytes, owner: Node | None) -> SimpleCommand:
    end = owner.end_byte if owner else node.end_byte
    redirects = [child for child in (*node.children, *(owner.children if owner else ())) if child.type in _REDIRECTS]
    words = sorted((*_words(node), *_words_after(redirects)), key=lambda word: word.start_byte)
    return SimpleCommand(
        source[node.start_byte : end].decode(),
        tuple(
            Word(source_of(word), value_of(word), len(source[node.start_byte : word.start_byte].decode()))
            for word in words
        ),
        bool(redirects),
        tuple(name for child in node.children for name in set_by_node(child)),
    )


def _words(node: Node) -> Iterator[Node]:
    for child in node.children:
        if child.type == "command_name":
            yield child.children[0]
        elif child.type not in _NO_WORDS:
            yield child


def _words_after(redirects: Iterable[Node]) -> Iterator[Node]:
    """`a > f b` runs `a b`, and so does `a <<E b`: the grammar keeps such words with the redirection."""
    for redirect in redirects:
        words = [child for child in redirect.named_children if child.type not in _NO_WORDS]
        yield from words if redirect.type == "heredoc_redirect" else words[1:]
