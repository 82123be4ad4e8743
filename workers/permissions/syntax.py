"""Shell text as a syntax tree that can be believed: what the grammar says, checked against the text. Pure.

The grammar (tree-sitter's, for bash) is made for colouring: it guesses where it should give up, and the sandbox's
`sh` need not be bash. So only the kinds of node of the tables below are understood, every leaf must look like what it
is called, and nothing but blanks may lie between two of them. Text that bash and a POSIX shell read differently
(`$'…'`, `[[ … ]]`, `(( … ))`, arrays) is understood where neither runs anything that is not told. All else raises
`Unparsable`, and asks. The grammar itself runs in a process of its own (see `tree`).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

from .tree import Node, NoTree, Parser, TakesTooLong

# What the parser takes grows with the square of the length, and with that of what it may have to take back: where a
# text of nothing but pipes breaks off, it looks at all of them again for each. Half a second is the worst within these.
MAX_BYTES = 16 * 1024
MAX_OPERATORS = 2_000
_OPERATOR = re.compile(rb"[|&;()<>]")
# Far beyond what people nest; it bounds what the texts of nested commands take together.
MAX_DEPTH = 400

# kind of node → the signs and keywords that may stand directly in it
_SIGNS: dict[str, frozenset[str]] = {
    kind: frozenset(signs.split())
    for kind, signs in {
        "program": "; &",
        "list": "&& ||",
        "pipeline": "| |&",
        "negated_command": "!",
        "subshell": "( ) ; &",
        "compound_statement": "{ } ; &",
        "if_statement": "if then fi ; &",
        "elif_clause": "elif then ; &",
        "else_clause": "else ; &",
        "while_statement": "while until ; &",
        "for_statement": "for in ; &",
        "c_style_for_statement": "for (( )) ; &",
        "do_group": "do done ; &",
        "case_statement": "case in esac ;",
        "case_item": "( ) | ;; ; &",
        "function_definition": "function ( )",
        "command": "$",
        "command_name": "",
        "concatenation": "$",
        "redirected_statement": "",
        "file_redirect": "< > >> >| &> &>> <& >& <&- >&-",
        "heredoc_redirect": "<< <<-",
        "herestring_redirect": "<<<",
        "variable_assignment": "= +=",
        "variable_assignments": "",
        "declaration_command": "export readonly local declare typeset",
        "unset_command": "unset",
        "test_command": "[ ] [[ ]]",
        "unary_expression": "!",
        "binary_expression": "= == != =~ && ||",
        "parenthesized_expression": "( )",
        "subscript": "[ ]",
        "array": "( )",
        "command_substitution": "$( ` ) ; &",
        "process_substitution": "<( >( ) ; &",
        "simple_expansion": "$",
    }.items()
}
_WORD_CHAR = r"[^\s'\"\\`$;&|<>()#]|\\[^\n]"
# kind of leaf → what its text looks like
_LEAVES: dict[str, re.Pattern[str]] = {
    kind: re.compile(looks)
    for kind, looks in {
        "word": rf"(?:{_WORD_CHAR})(?:{_WORD_CHAR}|\#)*",
        "extglob_pattern": rf"(?:{_WORD_CHAR})+",
        "number": r"[\w+-]+",
        "raw_string": r"'[^']*'",
        "variable_name": r"\w+",
        "special_variable_name": r"[@*#?$!_0-]",
        "file_descriptor": r"\d+",
        "comment": r"#[^\n]*",
        "test_operator": r"-(?![vR]$)[a-zA-Z]+",  # -v and -R evaluate subscripts
        # bash ends it where any shell ends the quotes
        "ansi_c_string": r"\$'[^'\\]*(?:\\[^'][^'\\]*)*'",
        # behind a parenthesis, a bar is none of a pipe for any shell
        "regex": r"(?!.*(?:\$[({]|\\[(]))[^\s'\"`;&|<>()#]*(?:\([^\s'\"`;&<>#]*)?",
        "heredoc_start": r"\w+|'[\w ]+'|\"[\w ]+\"",
        "heredoc_end": r"[\w ]+",
    }.items()
}
# Nodes that are judged by their text alone: braces that only take a variable's value.
_VALUE = r"(?:[\w./ :,@%+=~*-]|\$\w++|\$\{\w++\})*+"
_INDEX = r"\[(?:[@*]|\d+|\$?[A-Za-z_]\w*)\]"
_OFFSET = r"(?: ?-?\d+|\$?[A-Za-z_]\w*)"
_WHOLE: dict[str, re.Pattern[str]] = {
    "expansion": re.compile(
        rf"\$\{{(?:#?(?:\w+|[@*#?])(?:{_INDEX})?|!\w+\[[@*]\])"
        rf"(?::?[-=+?]{_VALUE}|[%#]{{1,2}}[\w./*:?\[\]-]*|:{_OFFSET}(?::{_OFFSET})?|[\^,]{{1,2}}|@[QULul]"
        r"|//?[#%]?[\w.*?: -]*(?:/[\w./*: -]*)?)?\}"
    ),
    "brace_expression": re.compile(r"\{-?\w+\.\.-?\w+(?:\.\.-?\d+)?\}"),
}
# What stands in arithmetic beside expansions; a quote, a semicolon or a comment would be read as something else.
_CALCULATES = re.compile(r"[\w\s()*/%+<>=!&|^~?:,-]*")
# In `[[ … ]]` their operands are arithmetic.
COMPARED = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_EXPANDED = frozenset({"simple_expansion", "expansion", "arithmetic_expansion", "command_substitution"})
# What stays between double quotes, or in a here-document, beside the expansions.
_QUOTED = re.compile(r"(?:[^\"\\`$]|\\.|\$(?![\w({@*#?$!'\"-]))*", re.DOTALL)
_DOCUMENT = re.compile(r"(?:[^\\`$]|\\[^\n]|\$(?![\w({@*#?$!'\"-]))*", re.DOTALL)
# A newline between the parts of one of these would end it.
_ONE_LINE = frozenset(
    ("command", "redirected_statement", "file_redirect", "herestring_redirect", "test_command", "declaration_command")
).union(("unset_command", "variable_assignments", "unary_expression", "binary_expression"))
_ADJACENT = frozenset({"concatenation", "variable_assignment", "simple_expansion", "string", "subscript"})
_GAP = re.compile(r"(?:[ \t\n]|\\\n)*")
# Signs that no key types, and blanks that a shell does not take for blanks.
_ODD_CHARS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufeff]|[^\S \t\n]")
_DECLARED = frozenset({"variable_assignment", "variable_name"})

_PARSER = Parser()


class Unparsable(ValueError):
    """The text is not understood well enough to say what it runs."""


def tree(text: str) -> Node:
    """The tree of a shell text by the grammar alone; `Unparsable` when the text is none by its rules."""
    root, _ = _parsed(text)
    if root.has_error:
        worst = next((node for node, _ in walk(root) if node.is_error or node.is_missing), root)
        raise Unparsable(f"not understood at: {source_of(worst)[:40]!r}")
    return root


def parse(text: str) -> Node:
    """The tree of a shell text; `Unparsable` when there is any doubt about it."""
    if odd := _ODD_CHARS.search(text):
        raise Unparsable(f"there is a character that shells and people read differently: {odd[0]!r}")
    root, source = _parsed(text)
    _check_blank(source[: root.start_byte] + b" " + source[root.end_byte :])
    _check_all(root, source)
    return root


def _parsed(text: str) -> tuple[Node, bytes]:
    try:
        source = text.encode()
    except UnicodeEncodeError as e:
        raise Unparsable("the text is no valid Unicode") from e
    if len(source) > MAX_BYTES:
        raise Unparsable(f"the text is longer than {MAX_BYTES} bytes; write it to a file and run that")
    if len(_OPERATOR.findall(source)) > MAX_OPERATORS:
        raise Unparsable(f"the text has more than {MAX_OPERATORS} of | & ; ( ) < >; write it to a file and run that")
    try:
        return _PARSER.parse(source), source
    except NoTree as e:
        why = "takes too long to read" if isinstance(e, TakesTooLong) else "cannot be read within bounds"
        raise Unparsable(f"the text {why}; write it to a file and run that") from e


def source_of(node: Node) -> str:
    return node.text.decode()


def walk(root: Node, closed: Container[str] = ()) -> Iterator[tuple[Node, int]]:
    """All nodes in the order of the text with their depth, a parent before its children. Nothing within `closed`."""
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        if node.type not in closed:
            waiting += [(child, depth + 1) for child in reversed(node.children)]


def is_arithmetic(node: Node) -> bool:
    if node.type == "compound_statement":
        return node.children[0].type == "(("
    return node.type in ("arithmetic_expansion", "c_style_for_statement")


def _understood_nodes(root: Node, source: bytes) -> Iterator[tuple[Node, int]]:
    """The nodes to be checked one by one; of arithmetic, which is checked here, what is expanded in it."""
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        if is_arithmetic(node):
            inside = _check_arithmetic(node, source)
            waiting += [(child, depth + 1) for child in reversed(inside)]
            continue
        yield node, depth
        if node.type not in _WHOLE:
            waiting += [(child, depth + 1) for child in reversed(node.children)]


def _check_arithmetic(node: Node, source: bytes) -> list[Node]:
    children = node.children
    opens = next((i for i, child in enumerate(children) if child.type in ("((", "$((")), None)
    closes = next((i for i, child in enumerate(children) if child.type == "))"), None)
    if opens is None or closes is None or node.has_error:
        raise Unparsable(f"not understood at: {source_of(node)[:40]!r}")
    expanded = [each for child in children[opens + 1 : closes] for each in expanded_in(child)]
    starts = [each.start_byte for each in expanded]
    ends = [each.end_byte for each in expanded]
    pieces = zip([children[opens].end_byte, *ends], [*starts, children[closes].start_byte], strict=True)
    text = "0".join(source[left:right].decode() for left, right in pieces)
    is_loop = node.type == "c_style_for_statement"
    depths, depth = [0], 0
    for sign in text:
        depth += {"(": 1, ")": -1}.get(sign, 0)
        depths.append(depth)
    parts = text.split(";") if is_loop else [text]
    is_plain = all(_CALCULATES.fullmatch(part) for part in parts) and len(parts) == (3 if is_loop else 1)
    if not is_plain or min(depths) < 0 or depth or source_of(node).startswith("$["):
        raise Unparsable(f"not understood at: {source_of(node)[:40]!r}")
    rest = children[closes + 1 :]
    if is_loop and any(child.type not in (";", "do_group", "comment") and source_of(child) != ";" for child in rest):
        raise Unparsable(f"not understood at: {source_of(node)[:40]!r}")
    at = children[0].start_byte
    for child in (*children[: opens + 1], *rest):
        if not _GAP.fullmatch(source[at : child.start_byte].decode()) and child in rest[1:]:
            raise Unparsable(f"not understood at: {source_of(node)[:40]!r}")
        at = child.end_byte
    return [*expanded, *(child for child in rest if child.is_named)]


def expanded_in(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node.type in _EXPANDED:
            yield node
        else:
            waiting += reversed(node.children)


def _check_all(root: Node, source: bytes) -> None:
    for node, depth in _understood_nodes(root, source):
        if depth > MAX_DEPTH:
            raise Unparsable("it is nested too deeply")
        if node.is_error or node.is_missing or not _is_understood(node, source):
            raise Unparsable(f"not understood at: {source_of(node)[:40]!r}")


def _is_understood(node: Node, source: bytes) -> bool:
    if whole := _WHOLE.get(node.type) or _LEAVES.get(node.type):
        return whole.fullmatch(source_of(node)) is not None and _may_start_here(node, source)
    if not node.is_named or node.type in ("string_content", "heredoc_content"):
        return True  # judged with its parent
    if node.type == "string":
        closed = re.fullmatch('".*"', source_of(node), re.DOTALL) is not None
        return closed and _is_literal(node, source, _QUOTED, node.start_byte + 1, node.end_byte - 1)
    if node.type == "heredoc_body":
        return True  # judged with its redirection
    if (signs := _SIGNS.get(node.type)) is None:
        return False
    if not all(child.is_named or (child.type in signs and source_of(child) == child.type) for child in node.children):
        return False
    check = _CHECKS.get(node.type)
    return _gaps_are_blank(node, source) and (check is None or check(node, source))


def _may_start_here(node: Node, source: bytes) -> bool:
    before = source[max(0, node.start_byte - 1) : node.start_byte]
    return node.type != "comment" or before in (b"", b" ", b"\t", b"\n", b";", b"&", b"|", b"(", b")")


def _is_literal(node: Node, source: bytes, looks: re.Pattern[str], start: int, end: int) -> bool:
    """Is everything from `start` to `end` either text without a meaning, or an expansion that is in the tree?"""
    expanded = [child for child in node.children if child.type in _EXPANDED]
    starts, ends = [child.start_byte for child in expanded], [child.end_byte for child in expanded]
    pieces = zip([start, *ends], [*starts, end], strict=True)
    return all(looks.fullmatch(source[left:right].decode()) for left, right in pieces)


def _gaps_are_blank(node: Node, source: bytes) -> bool:
    at = node.start_byte
    for child in node.children:
        gap = source[at : child.start_byte].decode()
        if child.type == "heredoc_redirect":  # before one, the grammar loses a lone dash, as in `python - <<E`
            gap = re.sub(r"^[ \t]+-(?=[ \t])", " ", gap)
        joined = gap and not gap.replace("\\\n", "")  # a continued line without a blank: both sides are one word
        if joined or not _GAP.fullmatch(gap) or (gap and node.type in _ADJACENT):
            return False
        if node.type in _ONE_LINE and "\n" in gap.replace("\\\n", ""):
            return False
        at = child.end_byte
    return at == node.end_byte or not source[at : node.end_byte].strip(b" \t\n")


def _check_blank(around: bytes) -> None:
    if not _GAP.fullmatch(around.decode()):
        raise Unparsable(f"not understood: {around[:40]!r}")


def _is_substituted_plainly(node: Node, source: bytes) -> bool:
    """Backquotes take a layer of escapes and quotes off before they are read, which the grammar does not. What begins
    with two parentheses is arithmetic for a shell, if it can be."""
    if source_of(node).startswith("$(("):
        return False
    return not source_of(node).startswith("`") or not set('\\"') & set(source_of(node))


def _declares_plainly(node: Node, source: bytes) -> bool:
    """Names and assignments: an `-i` evaluates, an `-n` renames, and a quoted word may be any assignment."""
    words = [child for child in node.named_children if child.type not in _DECLARED]
    return all(child.type == "word" and re.fullmatch(r"-[aAfgprx]+", source_of(child)) for child in words)


def _redirects_plainly(node: Node, source: bytes) -> bool:
    """For a POSIX shell `&>` ends the command, and words after it are another one."""
    redirects = [child for child in node.children if child.type == "file_redirect"]
    both = any(child.type in ("&>", "&>>") for redirect in redirects for child in redirect.children)
    return not both or all(len(_targets(redirect)) <= 1 for redirect in redirects)


def _targets(redirect: Node) -> list[Node]:
    return [child for child in redirect.named_children if child.type != "file_descriptor"]


def _is_plain_document(node: Node, source: bytes) -> bool:
    """Does the here-document end where a shell ends it, and is what it expands in the tree?"""
    parts = {child.type: child for child in node.children}
    start, body, end = (parts.get(kind) for kind in ("heredoc_start", "heredoc_body", "heredoc_end"))
    if start is None or body is None or end is None:
        return False
    first = source.find(b"\n", start.end_byte) + 1
    word = source_of(start).strip("'\"").encode()
    tabs = rb"\t*" if "<<-" in parts else b""
    closing = re.compile(rb"^" + tabs + re.escape(word) + rb"$", re.MULTILINE).search(source, first)
    if not first or closing is None or closing.end() != end.end_byte or body.start_byte < first:
        return False
    if any(child.end_byte >= first for child in node.children if child not in (body, end)):
        return False
    if source_of(start) != word.decode():  # quoted: nothing is expanded
        return not body.children
    return _is_literal(body, source, _DOCUMENT, first, closing.start())


def _tests_plainly(node: Node, source: bytes) -> bool:
    """Brackets that fit, and nothing in double ones that a POSIX shell would run.

    It knows no `[[`: that fails, and what follows `||`, or `&&` where something is negated, is a command for it.
    """
    opens, closes = node.children[0].type, node.children[-1].type
    if (opens, closes) not in (("[", "]"), ("[[", "]]")):
        return False
    inner = [each for each, _ in walk(node)]
    signs = {each.type for each in inner}
    if opens == "[":
        return not signs & {"&&", "||", "=~", "regex", "parenthesized_expression"}
    joined = [
        each.children[-1] for each in inner if each.type == "binary_expression" and each.children[1].type in _JOINS
    ]
    negated = "!" in signs or (node.parent is not None and node.parent.type == "negated_command")
    return not ("||" in signs or negated) or all(_starts_with_operator(each) for each in joined)


def _starts_with_operator(node: Node) -> bool:
    while node.children and node.type in ("unary_expression", "binary_expression"):
        node = node.children[1] if node.children[0].type == "!" else node.children[0]
    return node.type in ("test_operator", "parenthesized_expression")


def _subscribes_plainly(node: Node, source: bytes) -> bool:
    return re.fullmatch(rf"\w+{_INDEX}", source_of(node)) is not None


def _lists_plainly(node: Node, source: bytes) -> bool:
    """Elements of an array; one with an index of its own would be evaluated."""
    return not any(source_of(child).startswith("[") for child in node.named_children)


_JOINS = ("&&", "||")
_CHECKS = {
    "test_command": _tests_plainly,
    "subscript": _subscribes_plainly,
    "array": _lists_plainly,
    "command_substitution": _is_substituted_plainly,
    "declaration_command": _declares_plainly,
    "unset_command": _declares_plainly,
    "redirected_statement": _redirects_plainly,
    "heredoc_redirect": _is_plain_document,
}
