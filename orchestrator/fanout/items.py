"""What a fan-out is over: files of a repository, lines of a file, or JSON Lines; and a prompt with a place for each."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from envelope.codec import MAX_MESSAGE_BYTES

from ..errors import BadInput, near_miss
from ..uploads import Weighed

MAX_ITEMS = 10_000
MAX_ITEMS_BYTES = 16 * 1024 * 1024
MAX_TITLE_CHARS = 200
AGAIN = "submit it with `muster fanout`, or `Muster.fanout`"
# `{item}`, `{path}`: a name in braces. Anything else in braces (code, JSON) is left as it is.
_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")

# By name: `item` is the whole item as text, `number` counts from 1, the rest are the fields of a JSON object.
Item = Mapping[str, str]
_ITEMS = TypeAdapter(list[dict[str, str]])


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


def blob_of_items(items: Sequence[Item]) -> bytes:
    content = json.dumps(items, sort_keys=True).encode()
    _require_room("bytes", len(content), MAX_ITEMS_BYTES)
    return content


def items_of_blob(content: bytes, *, count: int) -> list[Item]:
    """What `blob_of_items` has written; `BadInput` for what somebody else has. Takes seconds for the longest."""
    _require_room("bytes", len(content), MAX_ITEMS_BYTES)
    _require_room("items", count, MAX_ITEMS)
    try:
        items = _ITEMS.validate_python(from_json(content))
    except (ValidationError, ValueError) as e:
        raise BadInput("the items of this fan-out are no list of them", hint=AGAIN) from e
    numbers = [item["number"] for item in items if "item" in item and "number" in item]
    if len(items) != count or numbers != [str(number) for number in range(1, count + 1)]:
        raise BadInput(f"the items of this fan-out are not the {count} that it was made of", hint=AGAIN)
    return list(items)


def require_short(prompt: str, items: Iterable[Item], *, beside_bytes: int = 0) -> int:
    """How many bytes the tasks of all items have, with so many beside each prompt. `BadInput` where they could not be
    held, or sent: a short prompt may name a long item many times."""
    places = Counter(_PLACE.findall(prompt))
    each_bytes = _size_of(prompt) + beside_bytes
    weighed, total = Weighed(), 0
    for item in items:
        size_bytes = each_bytes + _filling_bytes(places, item)
        _require_room("bytes in the task of one item", size_bytes, MAX_MESSAGE_BYTES)
        weighed.add(size_bytes)
        total += size_bytes
    return total


def _filling_bytes(places: Mapping[str, int], item: Item) -> int:
    """Of what fills the places; with what stands there now, a little more than the filled text will have. By the item's
    fields: a prompt may name thousands of places that no item fills."""
    return sum(places[name] * _size_of(value) for name, value in item.items() if name in places)


def _size_of(text: str) -> int:
    return len(text.encode(errors="replace"))


def _require_room(what: str, count: int, limit: int) -> None:
    if count > limit:
        raise BadInput(f"a fan-out has at most {limit:,} {what}", hint="name files in the items, not what is in them")


def check_prompt(prompt: str, items: Sequence[Item]) -> None:
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
    require_short(prompt, items)


def prompt_for(prompt: str, item: Item) -> str:
    """`BadInput` where it would be larger than a task may be: a place may be named a hundred thousand times."""
    size_bytes = _size_of(prompt) + _filling_bytes(Counter(_PLACE.findall(prompt)), item)
    if size_bytes > MAX_MESSAGE_BYTES:
        said = f"filled in, a prompt or command would have {size_bytes:,} bytes, and {MAX_MESSAGE_BYTES:,} are the most"
        raise BadInput(said, hint="name what is long once, or name a file that holds it")
    return _PLACE.sub(lambda place: item.get(place[1], place[0]), prompt)


def title_of(item: Item) -> str:
    return " ".join(item["item"].split())[:MAX_TITLE_CHARS]
