"""As much of PromQL as it takes to say which series and labels a query names. promtool says whether it is right."""

from __future__ import annotations

import re

STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\s*(\{[^}]*\})?(?!\w|\s*\()")
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
RANGE = re.compile(r"\[[^]]*\]|\boffset\s+\w+")
WORDS = {"and", "or", "unless", "bool", "by", "without", "on", "ignoring", "group_left", "group_right"}
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")


def selectors(query: str) -> list[tuple[str, frozenset[str]]]:
    """Each series that the query names, with the labels that it is matched by.

    >>> selectors('sum by (pool) (rate(a_total{pool="x"}[5m])) > 3 unless b')
    [('a_total', frozenset({'pool'})), ('b', frozenset())]
    """
    bare = GROUPING.sub(" ", RANGE.sub(" ", STRING.sub('""', query)))
    return [
        (name, frozenset(LABEL.findall(matchers)))
        for name, matchers in SELECTOR.findall(bare)
        if name not in WORDS and not re.fullmatch(r"\d.*", name)
    ]


def grouped_by(query: str) -> set[str]:
    """The labels that the query groups or joins by."""
    return {label.strip() for labels in GROUPING.findall(query) for label in labels.split(",") if label.strip()}


def of_fleet(query: str) -> str:
    """The query for the fleet that is chosen on the dashboard; the server's own metrics belong to no fleet.

    >>> of_fleet('max(muster_a{b="c"}) + muster_d')
    'max(muster_a{fleet=~"$fleet", b="c"}) + muster_d{fleet=~"$fleet"}'
    """

    def chosen(found: re.Match[str]) -> str:
        inner = found[2][1:-1] if found[2] else ""
        return f"{found[1]}{{{', '.join(filter(None, [MATCHER, inner]))}}}"

    return re.sub(r"\b(muster(?!:slo_budget)[_:][\w:]*)(\{[^}]*\})?", chosen, query)  # budgets are the same for all


MATCHER = 'fleet=~"$fleet"'
