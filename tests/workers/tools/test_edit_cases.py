"""What models really send to `edit`, as a table: the file, `old`, `new`, and the file after it or why it is refused.

The faults behind the rows: blocks that are elided, indentation that was lost or is there already, quotes and dashes
that a model straightens, accents in another form, line ends, escapes that came once too often, memories that are a
little wrong, and pieces that stand at several places.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.tools.edit import apply_edit
from workers.tools.elision import elided, newly_elided
from workers.tools.replace import EditRefused, edited

PY = """\
class Cart:
    def add(self, item):
        self.items.append(item)
        self.total += item.price
        self.save()

    def remove(self, item):
        self.items.remove(item)
        self.total -= item.price
        self.save()
"""
JS = """\
function first() {
  const a = 1;
  const b = 2;
  return a + b;
}

function second() {
  const a = 1;
  const c = 3;
  return a + c;
}
"""
NFD = unicodedata.normalize("NFD", "prix = 'café'\nautre = 'thé'\n")


@dataclass(frozen=True)
class Case:
    text: str
    old: str
    new: str
    after: str | None = None
    refused: str = ""
    everywhere: bool = False


def refused(text: str, old: str, new: str, words: str, **more) -> Case:
    return Case(text, old, new, refused=words, **more)


CASES = {
    # blocks that are elided: nothing that `old` leaves out goes
    "elided, python comment": refused(
        PY, "    def add(self, item):\n        # ...\n        self.save()", "    def add(self, item):\n        pass",
        "leaves lines out"),
    "elided, existing code": refused(
        PY, "class Cart:\n    # ... existing code ...\n    def remove(self, item):", "class Cart:\n    x = 1",
        "leaves lines out"),
    "elided, three dots": refused(
        JS, "function first() {\n  ...\n}", "function first() { return 3; }", "leaves lines out"),
    "elided, rest": refused(
        JS, "function first() {\n  const a = 1;\n  // ... rest\n}", "x", "leaves lines out"),
    "elided, rest of the function": refused(
        JS, "function first() {\n  // ... rest of the function ...\n}", "x", "leaves lines out"),
    "elided, block comment": refused(
        JS, "function first() {\n  /* ... */\n}", "x", "leaves lines out"),
    "elided, html": refused(
        "<ul>\n  <li>a</li>\n  <li>b</li>\n</ul>\n", "<ul>\n  <!-- ... -->\n</ul>", "<ol></ol>", "leaves lines out"),
    "elided, jsx": refused(
        "<A>\n  <B/>\n  <C/>\n</A>\n", "<A>\n  {/* ... */}\n</A>", "<A/>", "leaves lines out"),
    "elided, the sign for it": refused(JS, "function first() {\n  …\n}", "x", "leaves lines out"),
    "elided, one line for one line": refused(
        "def f():\n    x = 1\n    return x\n", "def f():\n    # ...\n    return x", "def f():\n    return 2",
        "leaves lines out"),
    "elided, kept in new": refused(
        "def f():\n    y = 5\n    return 1\n", "def f():\n    ...\n    return 1", "def f():\n    ...\n    return 2",
        "leaves lines out"),
    "elided, sql and lua": refused(
        "SELECT a,\n  b,\n  c\nFROM t;\n", "SELECT a,\n  -- ...\nFROM t;", "SELECT 1;", "leaves lines out"),
    "elided, last line": refused(JS, "function second() {\n  const a = 1;\n  // ...", "x", "leaves lines out"),
    "elided, exactly so in the file": Case(
        "def f():\n    # ...\n    return 1\n", "    # ...\n    return 1", "    return 2", "def f():\n    return 2\n"),
    "elided, a stub's own dots": Case(
        "class P(Protocol):\n    def f(self) -> int:\n        ...\n", "    def f(self) -> int:\n        ...",
        "    def f(self) -> str:\n        ...", "class P(Protocol):\n    def f(self) -> str:\n        ...\n"),
    "new is elided, exact old": refused(
        JS, JS[: JS.index("\n\n")], "function first() {\n  // ... existing code ...\n  return 4;\n}", "newString"),
    "new is elided, rest unchanged": refused(
        JS, "  return a + b;\n}", "  return 1;\n}\n// ... rest of the file remains unchanged", "newString"),
    "new has dots of its own": Case(
        "def f():\n    return 1\n", "    return 1", "    ...", "def f():\n    ...\n"),
    "new keeps a remark that the file has": Case(
        "# ... rest of the rules\nx = 1\n", "# ... rest of the rules\nx = 1", "# ... rest of the rules\nx = 2",
        "# ... rest of the rules\nx = 2\n"),
    # first and last line are right, and something else is between them
    "anchors, other middle": refused(
        "{\nsame\nother\n}\n", "{\nsame\n0123456789\n}", "x", "not found"),
    "anchors, a line more in the file": refused("{\na\nb\nmore\nc\n}\n", "{\na\nb\nc\n}", "x", "not found"),
    "anchors, a line less in the file": refused("{\na\nc\n}\n", "{\na\nb\nc\n}", "x", "not found"),
    "two far lines as one piece": refused(
        PY, "        self.items.append(item)\n\n    def remove(self, item):", "        pass", "not found"),
    "a misremembered line that goes": refused(
        "f(\n  first,\n  second\n)\n", "f(\n  first,\n  secand\n)", "g()", "line 3 .*second"),
    "a misremembered line that is changed": refused(
        "if a < 12:\n    b()\n    c()\n", "if a < 10:\n    b()\n    c()", "if a < 20:\n    b()\n    c()", "not found"),
    "a misremembered line that stays": Case(
        "def f():\n    # adds up the numbers\n    x = 1\n    return x\n",
        "def f():\n    # adds up all numbers\n    x = 1\n    return x",
        "def f():\n    # adds up all numbers\n    x = 2\n    return x",
        "def f():\n    # adds up the numbers\n    x = 2\n    return x\n"),
    "a misremembered line that stays, twice there": refused(
        "{\nthe first one\na\n}\n{\nthe first two\na\n}\n", "{\nthe first six\na\n}", "{\nthe first six\nb\n}",
        "resembles it .*lines 1 and 5"),
    # several places
    "exact, two places": refused(PY, "        self.save()\n", "        pass\n", "2 places, lines 5 and 10"),
    "exact, a piece of a line": refused("ab\nxaby\n", "ab", "c", "lines 1 and 2"),
    "exact, overlapping": refused("aaa", "aa", "b", "2 places"),
    "exact, everywhere": Case("a b a\n", "a", "c", "c b c\n", everywhere=True),
    "loose, blanks at the end of lines": Case("  a  \nx\n  a\t\n", "  a\nx\n  a\n", "b", "b\n"),
    "loose, two equally near": refused("if a:\n    b \nif c:\n    b\t\n", "    b\n", "    d\n", "lines 2 and 4"),
    "loose, two of another indentation": refused("  a\n  a\n\ta\n", " a ", " b ", "lines 1, 2 and 3"),
    "loose, everywhere, each in its place": Case(
        "  a\nb\n    a\n", "\ta\n", "\tc\n", "  c\nb\n    c\n", everywhere=True),
    "loose, the nearer of two": Case("  x = 1 \n    x = 1\n", "  x = 1\n    x = 1\n", "y\n", "y\n"),
    "loose, blanks at the end before indentation": Case("    a \n  a\n", "    a\n", "    b\n", "    b\n  a\n"),
    # indentation
    "dedented, new as well": Case(
        PY, "def add(self, item):\n    self.items.append(item)", "def add(self, item):\n    self.items.insert(0, item)",
        PY.replace("append(item)", "insert(0, item)")),
    "dedented, new is right already": Case(
        PY, "def add(self, item):\n    self.items.append(item)",
        "    def add(self, item):\n        self.items.insert(0, item)", PY.replace("append(item)", "insert(0, item)")),
    "dedented, a kept line shows that new is right": Case(
        PY, "    self.items.append(item)\n    self.total += item.price",
        "        if item:\n            self.items.append(item)\n        self.total += item.price",
        PY.replace("        self.items.append", "        if item:\n            self.items.append")),
    "tabs in the file, blanks in both": Case(
        "if a:\n\tb()\n\tc()\n", "    b()\n    c()", "    b()\n    if d:\n        c()",
        "if a:\n\tb()\n\tif d:\n\t\tc()\n"),
    "tabs in the file, new is right already": Case(
        "if a:\n\tb()\n\tc()\n", "    b()\n    c()", "\tb()\n\td()", "if a:\n\tb()\n\td()\n"),
    "first line lost its indentation": Case(
        "class A:\n    def f(self):\n        return 1  \n", "def f(self):\n        return 1\n",
        "def f(self):\n        return 2\n", "class A:\n    def f(self):\n        return 2\n"),
    "structure lost": refused(
        "if a:\n    b()\nc()\n", "  if a:\n      b()\n      c()", "  if a:\n      d()", "indentation"),
    "structure flattened": refused(
        "if a:\n    b()\n    if c:\n        d()\n", "if a:\nb()\nif c:\nd()", "if a:\ne()", "indentation"),
    "structure flattened, and nothing to place": Case("x\nif a:\n    b()\n", "if a:\nb()\n", "c()\n", "x\nc()\n"),
    "a dedent that cannot be": refused("if a:\n\tb()\n", "    b()", "    b()\nc()", "indentation"),
    "yaml, moved": Case(
        "a:\n  b:\n    c: 1 \n", "b:\n  c: 1\n", "b:\n  c: 2\n  d: 3\n", "a:\n  b:\n    c: 2\n    d: 3\n"),
    # signs that models straighten
    "curly quotes stay around what changes": Case(
        "say(“hello”)\n", 'say("hello")', 'say("goodbye")', "say(“goodbye”)\n"),
    "curly quotes stay in lines that stay": Case(
        "# it’s here\nx = 1\n", "# it's here\nx = 1", "# it's here\nx = 2", "# it’s here\nx = 2\n"),
    "a piece of a line with curly quotes": Case(
        "a = “x” + f(‘y’) # end\n", "f('y')", "g('y')", "a = “x” + g(‘y’) # end\n"),
    "dash and dots": Case("a – b… ok\n", "a - b... ok", "a - c... ok", "a – c… ok\n"),
    "a blank that does not break": Case("10\u00a0km\nx\n", "10 km\nx", "10 km\ny", "10\u00a0km\ny\n"),
    "straight in the file, curly from the model": Case('say("a")\n', "say(“a”)", "say(“b”)", 'say("b")\n'),
    "curly quotes at two places": refused("“a”\n“a”\n", '"a"', '"b"', "lines 1 and 2"),
    # accents
    "decomposed accents stay where nothing changes": Case(
        NFD, "prix = 'café'\nautre = 'thé'", "prix = 'café'\nautre = 'eau'",
        NFD.replace(unicodedata.normalize("NFD", "thé"), "eau")),
    "decomposed accents stay in a line that changes": Case(
        NFD, "prix = 'café'", "cout = 'café'", NFD.replace("prix", "cout")),
    "composed in the file": Case("x = 'é'\ny\n", "x = 'e\u0301'\ny", "x = 'e\u0301'\nz", "x = 'é'\nz\n"),
    # line ends, marks and the end of the file
    "carriage returns": Case("a\r\nb\r\nc\r\n", "a\nb", "a\nx\ny", "a\r\nx\r\ny\r\nc\r\n"),
    "mixed line ends, a line without": Case("a\nb\nc\r\n", "a\nb", "a\nx", "a\nx\nc\r\n"),
    "mixed line ends, over both": Case("a\r\nb\nc\r\nd\n", "a\nb\nc\nd\n", "a\nx\nc\nd\n", "a\r\nx\nc\r\nd\n"),
    "mixed line ends, elsewhere": Case("a\nb\r\nc\n", "c", "d", "a\nb\r\nd\n"),
    "mixed line ends, loose": Case("a \nb\r\nc\n", "a\nb\n", "a\nz\n", "a \nz\r\nc\n"),
    "mixed line ends, more lines": Case("a\r\nb\nc\n", "a\n", "a\nnew\n", "a\r\nnew\r\nb\nc\n"),
    "the mark stays": Case("\ufeffa\r\nb\r\n", "a\nb\n", "a\nc\n", "\ufeffa\r\nc\r\n"),
    "no newline at the end, old has one": Case("a\nb", "b\n", "c\n", "a\nc"),
    "no newline at the end, elsewhere": Case("a\nb", "a\n", "c\n", "c\nb"),
    "no newline at the end, the line goes": Case("a\nb", "b\n", "", "a\n"),
    "loose, new without the newline of old": Case("a \nb\n", "a\n", "c", "c\nb\n"),
    "exact, new without the newline of old": Case("a\nb\nc\n", "b\n", "x\ny", "a\nx\ny\nc\n"),
    "exact, without its indentation and newline": Case("  a\n  b\n", "a\n", "x", "  x\n  b\n"),
    "exact, a line goes without its indentation": Case("  a\n  b\n", "a\n", "", "  b\n"),
    "exact, a line goes": Case("  a\n  b\n", "  a\n", "", "  b\n"),
    "exact, lines are joined on purpose": Case("f(\na)\n", "f(\n", "f(", "f(a)\n"),
    "exact, a piece that ends a line": Case("a b\nc\n", " b\n", " ", "a c\n"),
    "exact, the last line": Case("a\nb\n", "b\n", "c", "a\nc"),
    "loose, a line goes": Case("a \nb\n", "a\n", "", "b\n"),
    "blanks at the end of lines that stay": Case("a  \nb\t\nc\n", "a\nb\nc", "a\nB\nc", "a  \nB\nc\n"),
    # escapes
    "escaped once too often": Case('say("a")\nb\n', 'say(\\"a\\")\\nb', 'say(\\"c\\")\\nb', 'say("c")\nb\n'),
    "quotes escaped, an escape that is meant": Case(
        'say("a\\n")\n', 'say(\\"a\\n\\")', 'say(\\"b\\n\\")', 'say("b\\n")\n'),
    "lines escaped in old alone": Case(
        "a\nb\n", "a\\nb", 'a\nsay("x\\n")\nb', 'a\nsay("x\\n")\nb\n'),
    "escaped twice": Case('s = "{\\"a\\": 1}"\n', 's = \\"{\\\\\\"a\\\\\\": 1}\\"', 's = \\"{\\\\\\"b\\\\\\": 1}\\"',
                          's = "{\\"b\\": 1}"\n'),
    "many lines escaped": Case("a\nb\nc\nd\ne\n", "a\\nb\\nc\\nd", "a\\nx\\nc\\nd", "a\nx\nc\nd\ne\n"),
    "an escape that the file has": refused('x = "\\$HOME"\n', 'x = "$HOME"', 'x = "$HOME/a"', "not found"),
    # blanks
    "blank lines around": Case("a\nfoo()\nb\n", "\n\nfoo()\n\n", "\n\nbar()\n\n", "a\nbar()\nb\n"),
    "blank lines around, a piece of a longer word": refused("return xs\n", "\nreturn x\n", "\nreturn y\n", "not found"),
    "other blanks in a line": Case("a  =   1\n", "a = 1", "a = 2", "a = 2\n"),
    "other blanks, a piece of a line": Case("if (a  and\tb): c\n", "a and b", "a or b", "if (a or b): c\n"),
    "other blanks, a piece of a longer word": refused("if (a  and\tbc): d\n", "a and b", "x", "not found"),
    "wrapped elsewhere": Case("x = 0\nf(a,  b,\n  c)\n", "f(a,\n  b, c)", "f()", "x = 0\nf()\n"),
    # nothing to do
    "identical": refused("a\n", "a", "a", "identical"),
    "identical but for line ends": refused("a\r\n", "a\r\n", "a\n", "identical"),
    "what is there already": refused("\tx = 1\n", "    x = 1", "\tx = 1", "changes nothing"),
    "empty old": refused("a\n", "", "b", "empty"),
    "blank old": refused("a\n", "  \n", "b\n", "not found"),
    "not there at all": refused(PY, "def nowhere():\n    pass", "x", "not found"),
}  # fmt: skip


def test_there_are_enough_cases():
    assert len(CASES) >= 60


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_what_models_send_is_done_or_refused(case: Case):
    if case.after is None:
        with pytest.raises(EditRefused, match=f"(?s){case.refused}"):
            apply_edit(case.text, case.old, case.new, replace_all=case.everywhere)
    else:
        assert apply_edit(case.text, case.old, case.new, replace_all=case.everywhere) == case.after


@pytest.mark.parametrize(
    ("text", "old", "is_exact"),
    [("a\nb\n", "a\nb", True), ("a\r\nb\r\n", "a\nb", True), ("\ufeffa\n", "a", True), ("a \nb\n", "a\nb", False),
     ("\ta\n", "  a", False), ("“a”\n", '"a"', False), ("a\n", "\na\n", False)],
)  # fmt: skip
def test_a_match_knows_whether_it_was_exact(text: str, old: str, is_exact: bool):
    assert edited(text, old, f"{old}x").is_exact is is_exact


@pytest.mark.parametrize(
    "line",
    [
        "...",
        "# ...",
        "  // ...",
        "/* ... */",
        "<!-- ... -->",
        "{/* ... */}",
        "-- ...",
        "(...)",
        "[…]",
        "// .....",
        "# ... existing code ...",
        "// ... rest",
        "// ...rest of the code",
        "# rest of the code...",
        "/* ...unchanged */",
        "... existing methods of Cart ...",
        "(rest of methods ...)",
        "<!-- ... other items ... -->",
        "// … same as before …",
    ],
)
def test_a_line_may_stand_for_others(line: str):
    assert elided(f"a\n{line}\nb") == line.strip()


@pytest.mark.parametrize(
    "line",
    [
        "print('Loading...')",
        "x = ...",
        "def f(*args): ...",
        "  ...rest,",
        "[...existing, x]",
        "function f(a, ...rest) {",
        "Loading remaining files...",
        "# skip the rest...",
        "# ...and then the others are kept in order",
        "",
        "a...b",
        "# the rest of the code",
        "Tuple[int, ...]",
        "for (const k of [...other]) {",
        "- see the other file.",
    ],
)
def test_a_line_with_dots_may_be_one_like_others(line: str):
    assert elided(line) == newly_elided(line, "") == ""


def test_three_dots_alone_may_come():
    assert newly_elided("class P:\n    ...", "") == ""


def test_a_refusal_says_where_old_nearly_stands():
    with pytest.raises(EditRefused, match=r"(?s)nearest.*lines 2 to 4.*line 3 .*'        self.items.append\(item\)'"):
        apply_edit(
            PY,
            "    def add(self, item):\n        self.items.append(thing, 1)\n        self.total += item.price",
            "    def add(self, item):\n        self.total += item.price",
        )


# Lines of which each stands for itself: what is left of them can be counted.
WORDS = ("alpha", "beta", "gamma", "delta", "if x:", "}", "return 1", "# ...", "...", "")
INDENTS = ("", "    ", "        ", "\t", "  ")
LINE = st.builds(lambda indent, word, end: indent + word + end, st.sampled_from(INDENTS), st.sampled_from(WORDS),
                 st.sampled_from(("", "", " ", "\t")))  # fmt: skip


def essence(text: str) -> str:
    return "".join(unicodedata.normalize("NFC", text).split())


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[str, str, str]:
    """A file, and an `old` that is a piece of it as a model remembers it."""
    lines = [f"{line}{number}" if line.strip() and draw(st.booleans()) else line
             for number, line in enumerate(draw(st.lists(LINE, min_size=1, max_size=12)))]  # fmt: skip
    first = draw(st.integers(0, len(lines) - 1))
    piece = lines[first : draw(st.integers(first + 1, len(lines)))]
    for _ in range(draw(st.integers(0, 3))):
        if not piece:
            break
        at = draw(st.integers(0, len(piece) - 1))
        match draw(st.sampled_from(["drop", "elide", "typo", "dedent", "strip", "indent", "double"])):
            case "drop":
                del piece[at]
            case "elide":
                piece[at : at + draw(st.integers(1, 3))] = [draw(st.sampled_from(["# ...", "...", "// ... rest"]))]
            case "typo":
                piece[at] = piece[at] + "x"
            case "dedent":
                piece = [line.removeprefix("    ") for line in piece]
            case "strip":
                piece[at] = piece[at].strip()
            case "indent":
                piece = [f"  {line}" for line in piece]
            case _:
                piece[at:at] = [piece[at]]
    ends = draw(st.sampled_from(["", "\n"]))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    new = "\n".join(draw(st.lists(st.sampled_from(["new one", "    new two", *piece]), max_size=6)))
    return newline.join(lines) + draw(st.sampled_from(["", newline])), "\n".join(piece) + ends, new


@given(spoilt(), st.booleans())
def test_what_old_does_not_contain_is_still_there(case: tuple[str, str, str], everywhere: bool):
    text, old, new = case
    try:
        done = edited(text, old, new, replace_all=everywhere)
    except EditRefused:
        return
    if done.is_exact:  # and word for word what was asked for
        plain = text.replace("\r\n", "\n")
        assert done.text.replace("\r\n", "\n") == plain.replace(old, new)
        return
    gone = Counter(text.split("\n")) - Counter(done.text.split("\n"))
    assert all(essence(line) in essence(old) for line in gone)


@given(spoilt())
def test_lines_around_the_match_keep_their_bytes_and_their_order(case: tuple[str, str, str]):
    text, old, new = case
    try:
        done = edited(f"first \r\n{text}\nlast", old, new)
    except EditRefused:
        return
    # lines may be joined on purpose, and by who names a piece of a line
    begins = {line.strip() for line in text.split("\n")}
    if old == f"{new}\n" or not old.strip() or old.split("\n")[0].strip() not in begins:
        return
    assert done.text.startswith("first \r\n") and done.text.endswith("\nlast")
