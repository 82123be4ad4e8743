"""What junit-10.xsd asks for, as tables: the schema of Jenkins' xUnit plugin, which other readers go by, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

RESULTS = {"skipped", "error", "failure"}
RERUNS = {"rerunFailure", "rerunError", "flakyFailure", "flakyError"}
OUTPUTS = {"system-out", "system-err"}
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testsuite", "properties", "testcase", *OUTPUTS},
    "testcase": RESULTS | RERUNS | OUTPUTS,
    "properties": {"property"},
}
SUITE = {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"}
REQUIRED = {"testsuite": {"name", "tests", "failures", "errors"}, "testcase": {"name"}, "property": {"name", "value"}}
OPTIONAL = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": SUITE,
    "testcase": {"time", "classname", "group"},
    **{result: {"type", "message"} for result in RESULTS},
}
WITH_TEXT = RESULTS | RERUNS | OUTPUTS
SECONDS = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]{0,3})?")


def junit_faults(text: str) -> Iterator[str]:
    """Why a reader that validates would turn the document away."""
    root = ElementTree.fromstring(text.encode())
    if root.tag not in ("testsuites", "testsuite"):
        yield f"{root.tag} is no root"
    yield from _faults(root)


def _faults(element: ElementTree.Element) -> Iterator[str]:
    tag, given = element.tag, set(element.attrib)
    yield from (f"{tag} lacks {name}" for name in REQUIRED.get(tag, set()) - given)
    yield from (f"{tag} has no {name}" for name in given - REQUIRED.get(tag, set()) - OPTIONAL.get(tag, set()))
    if tag in ("testsuite", "testsuites") and not SECONDS.fullmatch(element.get("time", "")):
        yield f"{tag} took {element.get('time')}"
    loose = (element.text or "").strip() + "".join((child.tail or "").strip() for child in element)
    if loose and tag not in WITH_TEXT:
        yield f"{tag} holds text"
    for child in element:
        if child.tag not in CHILDREN.get(tag, set()):
            yield f"{tag} holds {child.tag}"
        yield from _faults(child)
