"""Data whose lines count in their order: what changes the meaning of lines below, with each of those. Pure, on text."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from .data_said import Key, Said, differing, more_than_once

# Who runs commands, in which shell; from where relative paths count.
_DOCKER_BELOW = {
    r"(USER|SHELL)\b": r"^RUN\b",
    r"WORKDIR\b": r"^(COPY|ADD)\b.*\s(?![/$])\S+$|^RUN\b.*(?<![\w/$\"'~.-])\.{0,2}/?[\w.-]+/[\w.-]",
}


def docker(text: str) -> Said:
    said = Said()
    keys: list[Key] = []
    stages: list[list[str]] = [[]]
    stage = 0
    for line in re.sub(r"\\\n", " ", text).splitlines():
        word, _, rest = line.strip().partition(" ")
        word = word.upper()
        stages[-1].append(f"{word} {rest}")
        said.used.update(re.findall(r"\$\{?(\w+)", rest))
        if word == "FROM":
            stage += 1
            stages.append([])
            said.used.update(rest.split()[:1])
            if found := re.search(r"\bAS\s+(\S+)", rest, re.IGNORECASE):
                keys.append(("stage", found[1]))
                said.defined.add(found[1])
        elif word in ("CMD", "ENTRYPOINT", "HEALTHCHECK", "STOPSIGNAL"):
            keys.append((str(stage), word))
        elif word in ("ENV", "ARG", "LABEL"):
            names = re.findall(r"([\w.-]+)=", rest) or rest.split()[:1]
            keys += [(str(stage), word, name) for name in names]
            said.defined.update(names)
        said.used.update(re.findall(r"--from=(\S+)", rest))
    below = (_below(lines, _DOCKER_BELOW) for lines in stages)
    return Said(more_than_once(keys).union(*below), said.defined, said.used)


def patterns(text: str) -> Said:
    """The last one that matches counts. What begins with `!` says the opposite of the others."""
    lines = (line.split(None, 1) for line in text.splitlines() if line.strip() and not line.startswith("#"))
    told = [
        (words[0].removeprefix("!"), " ".join((words[0][:1] * words[0].startswith("!"), *words[1:]))) for words in lines
    ]
    said = Said(differing(told))
    for at, (pattern, meaning) in enumerate(told):
        later = [one for one, other in told[at + 1 :] if other != meaning and _covers(one, pattern)]
        said.once.update(("below", pattern, one) for one in later)
    return said


def _covers(pattern: str, other: str) -> bool:
    """Whether all that the other pattern is for is taken by this one."""
    whole, part = pattern.lstrip("/"), other.lstrip("/")
    if whole.endswith(("/", "/*", "/**")):
        return part.startswith(whole.rstrip("*"))
    return "/" not in whole and fnmatch.fnmatch(posixpath.basename(part), whole)


# Where it works, what its arguments are called, whether it goes on.
_SHELL_BELOW = {
    r"(cd|pushd)\s": r"(?<![\w/$\"'~.-])\.{0,2}/?[\w.-]+/[\w.-]",
    r"shift\b": r"\$\{?[\d@*#]",
    r"(exit|exec)\b": r"^(?!#|fi\b|done\b|esac\b|else\b|elif\b)[^}]",
}


def shell(text: str) -> Said:
    defined = re.findall(r"^\s*(?:function\s+)?([\w-]+)\s*\(\)", text, re.MULTILINE)
    called = Counter(re.findall(r"[\w-]+", re.sub(r"[\w-]+\s*\(\)|#.*", "", text)))
    outside = [line for line in text.splitlines() if line[:1].strip()]
    return Said(more_than_once((one,) for one in defined) | _below(outside, _SHELL_BELOW), set(defined), called)


def _below(lines: Sequence[str], rules: Mapping[str, str]) -> set[Key]:
    """Each line that changes what lines below it mean, with each of these. `rules`: how the one and the others look."""
    found: set[Key] = set()
    for rule, minds in rules.items():
        firm = [at for at, line in enumerate(lines) if re.match(rule, line)]
        found |= {("below", lines[at], line) for at in firm for line in lines[at + 1 :] if re.search(minds, line)}
    return found
