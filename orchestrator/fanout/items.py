"""What a fan-out is over: files of a repository, lines of a file, or JSON Lines; and a prompt with a place for each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from ..errors import BadInput, near_miss

MAX_ITEMS = 10_000
MAX_TITLE_CHARS = 200
# `{item}`, `{path}`: a name in braces. Anything else in braces (code, JSON) is left as it is.
_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")

# By name: `item` is the whole item as text, `number` counts from 1, the rest are the fields of a JSON object.
Item = Mapping[str, str]


def items_of_lines(lines: Iterable[str], *, name: str) -> list[Item]:
    """One item for each line that is not empty; each can be written `{item}`."""
    return _counted(({"item": line.strip()} for line in lines if line.strip()), name)


def items_of_paths(paths: Iterable[str], *, name: str) -> list[Item]:
    return _counted(({"item": path, "path": path} for path in paths), name)


def items_of_json(lines: Iterable[str], *, name: str) -> list[Item]:
    """One item for each line: an object, whose fields have names, or any other value."""
    return _counted((_item(line, f"{name}:{at}") for at, line in enumerate(lines, 1) if line.strip()), name)


def items_of_values(values: Iterable[Any], *, name: str) -> list[Item]:
    """One item for each value: a mapping, whose fields have names, or any other."""
    return _counted(map(_of_value, values), name)


def _item(line: str, place: str) -> dict[str, str]:
    try:
        return _of_value(json.loads(line))
    except (json.JSONDecodeError, RecursionError) as e:
        raise BadInput(f"{place}: this line is not JSON", hint="one JSON value on each line") from e


def _of_value(value: Any) -> dict[str, str]:
    fields = cast("dict[str, Any]", value if isinstance(value, dict) else {})
    return {**{name: _text(each) for name, each in fields.items()}, "item": _text(value)}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _counted(found: Iterator[dict[str, str]], name: str) -> list[Item]:
    items: list[Item] = []
    for number, item in enumerate(found, 1):
        if number > MAX_ITEMS:
            raise BadInput(f"{name} has more than {MAX_ITEMS} items", hint="make several fan-outs of it")
        items.append({**item, "number": str(number)})
    if not items:
        raise BadInput(f"{name} has no items", hint="a glob matches committed files; a file has one item on each line")
    return items


def check_prompt(prompt: str, items: Iterable[Item]) -> None:
    """`BadInput` when no place of the prompt is filled, or one is not filled by each item."""
    places = dict.fromkeys(_PLACE.findall(prompt))
    all_names = {name for item in items for name in item}
    used = [name for name in places if name in all_names]
    if not used:
        wrong = next(iter(places), "")
        hint = near_miss(wrong, all_names) if wrong else 'write {item} where each one belongs: "Look at {item}."'
        raise BadInput("the prompt would be the same for every item", hint=hint)
    for number, item in enumerate(items, 1):
        if lacking := next((name for name in used if name not in item), None):
            raise BadInput(f"item {number} has no field {lacking!r}", hint="every item needs what the prompt names")


def prompt_for(prompt: str, item: Item) -> str:
    return _PLACE.sub(lambda place: item.get(place[1], place[0]), prompt)


def title_of(item: Item) -> str:
    return " ".join(item["item"].split())[:MAX_TITLE_CHARS]
