"""Code under test that reaches for its runner, or asks who runs it. A help against clumsy tricks, and no proof that
there are none."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from .diff import FilePatch
from .kinds import may_be_code

MAX_LINE_CHARS = 120
MAX_PIECE_CHARS, OVERLAP_CHARS = 10_000, 500  # no pattern matches more than the latter
# What makes a runner say something else than what it saw, or end before it has seen anything.
_REACHES = re.compile(
    r"\b(?:_pytest|pytest_runtest_\w+|pytest_sessionfinish|pytest_terminal_summary|pytest_collection\w*|pytest_plugins)\b"
    r"|\bPYTEST_\w+|\bTEST_RUNNER\b|junit_?xml|\bos\._exit\b|sys\.modules\[.(?:pytest|unittest)"
    r"|unittest\.(?:TestCase|TestResult|TextTestRunner|TextTestResult|case|result|runner|main)\.?\w* *="
    r"|\bprocess\.reallyExit\b|\b(?:sitecustomize|usercustomize)\b"
    r"|\bJEST_WORKER_ID\b|\bVITEST(?:_\w+)?\b|\bMOCHA_\w+"
)
# What tells code who runs it. Much of it has honest uses, so that it is told, and no objection.
_ASKS = re.compile(
    r"\bsys\.modules\b|\bfrom sys import\b.{0,200}\bmodules\b|\b_getframe\w*|\b_current_frames\b|\bf_(?:back|globals)\b"
    r"|\binspect\.(?:stack|currentframe|trace|getouterframes|getinnerframes)\b"
    r"|\bfrom inspect import\b.{0,200}\b(?:stack|currentframe)\b"
    r"|\btraceback\.(?:extract_stack|format_stack|print_stack|walk_stack|StackSummary)\b"
    r"|\bgc\.get_(?:objects|referrers)\b|\bsys\.(?:settrace|setprofile|gettrace)\b|\bargv\[0\]|/proc/(?:self|\d+)/"
    r"|\b(?:import|from) +(?:pytest|unittest|nose2?)\b|\b(?:TOX_ENV\w*|NOX_\w+|COVERAGE_\w+|UNITTEST_\w+)\b"
    r"|\bNODE_ENV\b|\bnpm_lifecycle_event\b|\bimport\.meta\.vitest\b|\bnew Error\(\)\.stack\b"
    r"|\btypeof +(?:jest|describe|it|test|vi)\b|\bglobalThis\.(?:jest|describe|it|test|vi)\b"
    r"|\btesting\.Testing\(\)|\bflag\.Lookup\(\"test\.|\bcfg!\(test\)|\bgetStackTrace\(|\bStackWalker\b|\bRUST_TEST_\w+"
)
# Beside the name of a runner (or the words that it was started with), a question has one use.
_RUNNERS_NAME = re.compile(r"""(['"`])(?:_?pytest|py\.test|unittest|nose2?|org\.junit|jest|mocha)(?:[./][\w.]*)?\1""")
_ARGV = re.compile(r"\bargv\b|\borig_argv\b")
# In a file that does such things, a text may be code, or hold the name of a variable.
_RUNS_TEXT = frozenset(
    (
        *("exec", "eval", "compile", "__import__", "import_module", "system", "popen", "Popen", "run", "call"),
        *("check_call", "check_output", "run_path", "run_module", "putenv", "getenv", "environ", "environb", "setenv"),
    )
)
_WORD = re.compile(r"\w+")
_READS_ITSELF = re.compile(r"__doc__|getdoc|getsource|getcomments|__file__|linecache|get_data")
_READS_TEXTS = re.compile(
    r"__doc__|\bgetdoc\b|\bgetsource\w*|\bgetcomments\b|\blinecache\b|\bget_source\b|\bopen\b|read_text"
)
_RUNS = re.compile(r"\b(?:exec|eval|compile)\b")
# Who is given a text says it to people.
_SAYS = re.compile(
    r"print|warn|debug|info|warning|error|exception|critical|log|echo|secho|fail|exit|add_argument|add_parser|Option"
    r"|Argument|dedent|gettext|_|\w*(?:Error|Exception|Warning)"
)
# What is longer is no source that people read, and would take long to take apart.
MAX_TEXT_CHARS = 200_000
MAX_SOURCE_LINE_CHARS = 1_000
# Where Python may end a line, and a diff does not.
_OTHER_LINES = re.compile("\r(?!\n)|[\0\f]")


@dataclass(frozen=True, slots=True)
class RunnerAccess:
    """Added lines with the file's name and their number: `reached` reach for the runner, `asked` ask who it is."""

    reached: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()


NOTHING = RunnerAccess()


def is_code_under_test(part: FilePatch) -> bool:
    """Does it bring code that is no test's?"""
    return part.status != "D" and may_be_code(part.path, is_binary=part.is_binary)


def is_suspicious(part: FilePatch) -> bool:
    """Is there something to look at?"""
    return is_code_under_test(part) and any(_found_in(part, pattern) for pattern in (_REACHES, _ASKS, _ARGV))


def _found_in(part: FilePatch, pattern: re.Pattern[str]) -> bool:
    return any(line.has(pattern) for line in _lines(part, b"+"))


def runs_its_texts(parts: Sequence[FilePatch]) -> bool:
    """Does new code read docstrings or sources, and run something? Then no text is only a text."""
    code = [part for part in parts if part.path.endswith(".py")]
    return all(any(_found_in(part, pattern) for part in code) for pattern in (_READS_TEXTS, _RUNS))


def runner_access(part: FilePatch, before: str | None = None, after: str | None = None) -> RunnerAccess:
    """What new code of the file does; what it did before is let be, also on another line.

    `before`, `after`: the file's text. In Python comments, docstrings and texts for people mention without doing.
    """
    if not is_code_under_test(part):
        return NOTHING
    is_python = part.path.endswith((".py", ".pyi"))
    added = _doing(part, b"+", after if is_python else None)
    removed = _doing(part, b"-", before if is_python else None)
    spare = Counter(word for line in removed for word in line.found(_REACHES))
    reached: dict[_Line, None] = {}  # a set in order
    for line in added:
        words = Counter(line.found(_REACHES))
        if any(count > spare[word] for word, count in words.items()):
            reached[line] = None
        for word in words:  # not `-=`, which goes through all that are spare
            spare[word] -= words[word]
    known = {line.text.strip() for line in removed}
    new = [line for line in added if line.text.strip() not in known]
    asked = [line for line in new if line not in reached and line.found(_ASKS)]
    if any(line.found(_RUNNERS_NAME) for line in new):
        more = [line for line in new if line.found(_ASKS) or line.found(_ARGV)]
        reached |= dict.fromkeys(line for line in more if not _is_import(line))
        asked = [line for line in asked if line not in reached]
    return RunnerAccess(
        tuple(line.shown(part.path) for line in reached), tuple(line.shown(part.path) for line in asked)
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """Or a piece of a long one: what begins at `end` or later is the next piece's as well. `spans` of it are words and
    no deeds."""

    number: int
    text: str
    spans: tuple[tuple[int, int], ...] = ()
    end: int = 1 << 30

    def has(self, pattern: re.Pattern[str]) -> bool:
        return pattern.search(self.text) is not None

    def found(self, pattern: re.Pattern[str]) -> list[str]:
        matches = [match for match in pattern.finditer(self.text) if match.start() < self.end]
        return [match[0] for match in matches if not any(a <= match.start() < b for a, b in self.spans)]

    def shown(self, path: str) -> str:
        return f"{path}:{self.number}: {self.text.strip()[:MAX_LINE_CHARS]}"


def _is_import(line: _Line) -> bool:
    return re.match(r"\s*(?:import|from)\b", line.text) is not None


def _doing(part: FilePatch, sign: bytes, text: str | None) -> list[_Line]:
    spans = _harmless(text) if text is not None else {}
    return [replace(line, spans=tuple(spans.get(line.number, ()))) for line in _lines(part, sign)]


def _lines(part: FilePatch, sign: bytes) -> Iterator[_Line]:
    """In pieces that overlap where they are long: while a pattern looks at one nothing else runs in this process."""
    for number, line in part.numbered(sign):
        for at in range(0, max(len(line) - OVERLAP_CHARS, 1), MAX_PIECE_CHARS):
            piece = line[at : at + MAX_PIECE_CHARS + OVERLAP_CHARS]
            yield _Line(number, piece, end=MAX_PIECE_CHARS if at + len(piece) < len(line) else len(piece))


def _harmless(text: str, *, with_texts: bool = True) -> dict[int, list[tuple[int, int]]]:
    """By line, where words are said and not done. Nothing in what cannot be read as Python.

    >>> _harmless("x = 1  # _pytest\\n")
    {1: [(7, 16)]}
    """
    if len(text) > MAX_TEXT_CHARS or max(map(len, text.splitlines()), default=0) > MAX_SOURCE_LINE_CHARS:
        return {}
    if _OTHER_LINES.search(text) or not _is_plainly_encoded(text):
        return {}
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError):
        return {}
    names = {token.string for token in tokens if token.type == tokenize.NAME}
    words = " ".join(token.string for token in tokens if token.type in (tokenize.NAME, tokenize.STRING))
    is_read = _READS_ITSELF.search(words)
    spans: dict[int, list[tuple[int, int]]] = {}
    runs_text = not names.isdisjoint(_RUNS_TEXT)
    for token in () if is_read else _said(tokens, runs_text=runs_text, with_texts=with_texts):
        for number in range(token.start[0], token.end[0] + 1):
            first = token.start[1] if number == token.start[0] else 0
            last = token.end[1] if number == token.end[0] else 1 << 30
            spans.setdefault(number, []).append((first, last))
    return spans


def words_done(text: str) -> set[str]:
    """The words of a Python source that stand in more than comments and docstrings.

    >>> sorted(words_done("x = mean  # the median\\n"))
    ['mean', 'x']
    """
    spans = _harmless(text, with_texts=False)
    lines = (_Line(number, line, tuple(spans.get(number, ()))) for number, line in enumerate(text.split("\n"), 1))
    return {word for line in lines for word in line.found(_WORD)}


def _is_plainly_encoded(text: str) -> bool:
    """In UTF-7 a comment may hold a line's end."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(text.encode()).readline)
    except SyntaxError:
        return False
    return encoding in ("utf-8", "utf-8-sig", "ascii", "iso-8859-1")


def _said(tokens: Sequence[tokenize.TokenInfo], *, runs_text: bool, with_texts: bool) -> Iterator[tokenize.TokenInfo]:
    """Comments, docstrings and texts for people: those that have spaces, and go where nothing runs them."""
    blank = (tokenize.NL, tokenize.COMMENT)
    solid = [token for token in tokens if token.type not in blank]
    yield from (token for token in tokens if token.type == tokenize.COMMENT)
    callers: list[str] = []
    starts = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    for number, token in enumerate(solid):
        before = solid[number - 1] if number else None
        if token.type == tokenize.OP and token.string in ("(", "[", "{"):
            callers.append(before.string if before and before.type == tokenize.NAME and token.string == "(" else "")
        elif token.type == tokenize.OP and token.string in (")", "]", "}"):
            callers[-1:] = []
        elif token.type == tokenize.STRING and "f" not in re.split("['\"]", token.string)[0].lower():
            is_alone = not callers and (before is None or before.type in starts)
            follows = solid[number + 1].type if number + 1 < len(solid) else tokenize.NEWLINE
            is_docstring = is_alone and follows in (tokenize.NEWLINE, tokenize.ENDMARKER)
            is_told = with_texts and (not runs_text or bool(callers and _SAYS.fullmatch(callers[-1])))
            if is_docstring or (is_told and re.search(r"\S\s+\S", token.string)):
                yield token
