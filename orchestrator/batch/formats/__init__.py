"""A batch's report in the forms that others read. Each is a pure function of the whole report."""

from __future__ import annotations

from collections.abc import Callable

from ..report import BatchReport
from .codequality import codequality
from .github import workflow_commands
from .junit import junit
from .lines import json_lines
from .markdown import markdown
from .sarif import sarif

FORMATS: dict[str, Callable[[BatchReport], str]] = {
    "markdown": markdown,
    "junit": junit,
    "sarif": sarif,
    "jsonl": json_lines,
    "github": workflow_commands,
    "codequality": codequality,
}
