"""Build files that are read line by line (Ruby's, Gradle's, Elixir's, YAML, properties): all of them counts but lines
that are known to be harmless. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

# A line's end for the one program, none for another: `// words\rprintln 1` is one line for us, and two for Groovy.
_ODD_END = re.compile("\r(?!\n)|[\v\f\x1c-\x1e\x85\u2028\u2029]")
_STRING = re.compile(r""""(?:[^"\\]|\\.)*+("?)|'(?:[^'\\]|\\.)*+('?)""")
_WORDS = re.compile(r"%[wWiI](?:\[[\w\s./*-]*+\]|\([\w\s./*-]*+\))")
# What may begin a text of several lines, in any of these languages, once whole strings are out of the line.
_OPENS = re.compile(r"""["'`/%~]|<<(?!\s)""")
# A line behind `if (…)` without a brace is what that decides about.
_DECIDES = re.compile(r"\s*(?:\}\s*)?(?:if|else|for|while)\b(?!.*\{\s*$)")
_OPENS_AT_ONCE = re.compile(r'''"""|\'\'\'|[?$]["'`#/]|^=begin|^__END__|\\$''')
_BLOCK_SCALAR = re.compile(r"[|>][\d+-]*\s*+(?:#.*)?$|[\[{]")


def has_odd_ends(text: str) -> bool:
    return _ODD_END.search(text) is not None


def _lines_but(
    *harmless: str, shortened: str = "", comment: str, opens: re.Pattern[str] = _OPENS
) -> Callable[[str], object]:
    """Reads all lines but `harmless` ones, comments and blanks; one that is `shortened` without the group `version` of
    that pattern. Behind a line that may begin a text of several lines a comment may be none: `#{…}` is code there, and
    `# define` whatever the text is for."""
    patterns = [re.compile(one) for one in harmless]
    short = re.compile(shortened) if shortened else None

    def read(text: str) -> object:
        kept: list[str] = []
        for whole_line, is_code in _with_what_is_code(text.split("\n"), comment, opens):
            line = whole_line.strip()
            is_idle = not line or line.startswith(comment)
            is_alone = not kept or not _DECIDES.match(kept[-1])
            if (is_idle and is_code) or (is_alone and any(pattern.fullmatch(line) for pattern in patterns)):
                continue
            found = short.fullmatch(line) if short else None
            kept.append(line[: found.start("version")] + line[found.end("version") :] if found else whole_line)
        return kept

    return read


def _with_what_is_code(lines: list[str], comment: str, opens: re.Pattern[str]) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it surely begins outside of all texts and comments of several lines. A line that may open
    one is the last such, but for `/* … */` by itself."""
    is_code, in_block = True, False
    for whole_line in lines:
        line = whole_line.strip()
        yield whole_line, is_code and not in_block
        if in_block or (comment == "//" and line.startswith("/*")):
            _, end, line = line.partition("*/")
            in_block = not end
        elif line.startswith(comment):
            continue
        if is_code and not in_block:
            plain = _WORDS.sub("", _STRING.sub(_unclosed, line)).partition(comment)[0]
            is_code = not (_OPENS_AT_ONCE.search(line) or opens.search(plain))


def _unclosed(string: re.Match[str]) -> str:
    return "" if string[1] or string[2] else string[0][0]


_NAME_OF = r"""\(?\s*+["'][\w.-]++:[\w.-]++(?P<version>(?::[\w.+$-]++)?)["']\s*+\)?"""
gradle = _lines_but(
    rf"(?:implementation|api|compileOnly|runtimeOnly|annotationProcessor|kapt|ksp)\s*+{_NAME_OF}",
    r"""version\s*+=?\s*+["'][\w.+-]++["']""",
    shortened=rf"(?<!\w)(?=\w*[tT]est)\w++\s*+{_NAME_OF}",
    comment="//",
)
properties = _lines_but(r"(?<![\w.-])[\w.-]*[vV]ersion\s*+=\s*+\d[\w.+-]*+", comment="#")

# `catalog:` and `dependencies:` of YAML, with a version each
yaml = _lines_but(
    r"""["']?[@\w/.-]++["']?:\s*["']?(?:any|[\^~>=<]*+\s?\d[\w.+ <>=-]*+)["']?""",
    comment="#",
    opens=re.compile(f"""["']|{_BLOCK_SCALAR.pattern}"""),
)

_VERSIONS = r"""(?:\s*+,\s*+["'][~<>=! \d.\w-]*+["'])*+"""
_GROUPS = r"""(?:\s*+,\s*+(?:require:\s*+false|(?:group|platform)s?:\s*+(?::\w++|\[[:\w, ]*+\])))*+"""
gemfile = _lines_but(rf"""gem\s++["'][\w.-]++["']{_VERSIONS}{_GROUPS}""", comment="#")
gemspec = _lines_but(
    rf"""\w+\.add_(?:runtime_|development_)?dependency[ (]\s*+["'][\w.-]++["']{_VERSIONS}\)?""",
    r"""\w+\.(?:version|summary|description|homepage|authors|email|license)\s*+=\s*+["'][^"'#\\]*+["']""",
    comment="#",
)
mix = _lines_but(
    r"""\{:\w++,\s*+"[~<>=!\w. -]++"(?:,\s*+only:\s*+(?::\w++|\[[:\w, ]*+\]))?(?:,\s*+runtime:\s*+\w++)?\},?""",
    r"""(?:version:|@version)\s*+"[\w.+-]++",?""",
    comment="#",
)
