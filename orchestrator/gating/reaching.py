"""Code under test that reaches for its runner. Pure. A help against clumsy tricks, and no proof that there are none."""

from __future__ import annotations

import re

from .diff import FilePatch
from .names import is_test_file

CODE = (".py", ".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx", ".sh", ".rb", ".php", ".pl")
MAX_LINE_CHARS = 120
# What makes a runner say something else than what it saw, or end before it has seen anything.
_REACHES = re.compile(
    r"\b(?:_pytest|pytest_runtest_\w+|pytest_sessionfinish|pytest_terminal_summary|pytest_collection\w*|pytest_plugins)\b"
    r"|\bPYTEST_\w+|junit_?xml|\bos\._exit\b|sys\.modules\[.(?:pytest|unittest)"
    r"|unittest\.(?:TestCase|TestResult|TextTestRunner|TextTestResult|case|result|runner|main)\.?\w* *="
    r"|\bprocess\.reallyExit\b|\b(?:sitecustomize|usercustomize)\b"
)


def reaching_lines(part: FilePatch) -> list[str]:
    """Added lines that do, with the file's name; a file that did as much before is let be."""
    if part.status == "D" or not part.path.endswith(CODE) or is_test_file(part.path):
        return []
    added = [line.strip() for line in part.lines(b"+") if _REACHES.search(line)]
    removed = [line for line in part.lines(b"-") if _REACHES.search(line)]
    return [f"{part.path}: {line[:MAX_LINE_CHARS]}" for line in added] if len(added) > len(removed) else []
