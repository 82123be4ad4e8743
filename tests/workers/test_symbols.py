"""Where symbols stand in source text of nine grammars, hostile source included."""

from __future__ import annotations

import pytest

from workers.references.grammars import language_of
from workers.references.looking import find_lines
from workers.references.symbols import MAX_SOURCE_BYTES, SYMBOL, lines_of

PYTHON = b"""\
LIMIT: int = 3
other = 4

try:
    import fast
except ImportError:
    async def fallback():
        inner = 1
        return inner


@decorated
class Greeter:
    name = "x"

    @property
    def greeting(self):
        def helper():
            pass
        return helper
"""
TYPESCRIPT = b"""\
export const limit = 3, other = 4

export interface Shape {
  area(): number
  name: string
}
export type Id<T> = T | string
enum Color { Red, Green = 2 }

export default class Box<T> implements Shape {
  private side: number = 1
  area() { return this.side }
}
namespace deep { export function inner() {} }
function twice(a: number): number
function twice(a: string): string
function twice(a: any) {
  return a
}
"""
JAVASCRIPT = b"""\
const api = {
  get: function () {},
  put(x) {
    return x
  },
}
exports.sum = (a, b) => a + b
class $Box {
  #side = 1
  area() { return this.#side }
}
if (x) {
  var late = async () => {
    let own = 1
  }
}
"""
GO = b"""\
package p

type Shape interface {
	Area() int
}

type (
	Box struct {
		Side, Top int
	}
	Alias = Box
)

const Pi, E = 3, 2

func (b *Box) Area() int {
	return b.Side
}

func Map[T any](xs []T) []T { return xs }
"""
RUST = b"""\
impl<T> Shape for Box<T> {
    fn area(&self) -> u32 {
        1
    }
}

pub struct Box<T> {
    side: T,
}

enum Color { Red, Green(u8) }
mod deep {
    pub fn inner() {}
}
macro_rules! twice { () => {} }
trait Shape { fn area(&self) -> u32; }
"""
JAVA = b"""\
package p;

@Deprecated
public class Box<T> implements Shape {
    private int side = 1, top;

    public Box(int side) { this.side = side; }

    @Override
    public int area() {
        return side;
    }

    enum Color { RED, GREEN }
}
record Point(int x, int y) {}
"""
C = b"""\
#define LIMIT 3
#define TWICE(x) \\
    ((x) * 2)
struct box;
struct box {
    int side;
};
typedef struct { int x; } point_t;
enum color { RED, GREEN };
static int *area(struct box *b);
int total = 1;

static int *area(struct box *b)
{
    return &b->side;
}
int (*chosen)(int);
"""
CPP = b"""\
namespace geo {
template <typename T>
class Box {
public:
    T area() const { return side; }
    int late();
    T side;
};
using Id = int;
}
int geo::Box<int>::late() {
    return 1;
}
"""

CASES = {
    "Python": (
        PYTHON,
        {
            "LIMIT": (1, 1),
            "other": (2, 2),
            "fallback": (7, 9),
            "Greeter": (12, 20),
            "Greeter.name": (14, 14),
            "Greeter.greeting": (16, 20),
            "Greeter.greeting.helper": (18, 19),
            "inner": None,
            "helper": None,
            "Greeter.nobody": None,
            "LIMIT.x": None,
        },
    ),
    "TypeScript": (
        TYPESCRIPT,
        {
            "limit": (1, 1),
            "other": (1, 1),
            "Shape": (3, 6),
            "Shape.area": (4, 4),
            "Shape.name": (5, 5),
            "Id": (7, 7),
            "Color": (8, 8),
            "Color.Green": (8, 8),
            "Box": (10, 13),
            "Box.side": (11, 11),
            "Box.area": (12, 12),
            "deep.inner": (14, 14),
            "twice": (17, 19),
            "area": None,
        },
    ),
    "JavaScript": (
        JAVASCRIPT,
        {
            "api": (1, 6),
            "api.get": (2, 2),
            "api.put": (3, 5),
            "exports.sum": (7, 7),
            "$Box": (8, 11),
            "$Box.#side": (9, 9),
            "$Box.area": (10, 10),
            "late": (13, 15),
            "late.own": (14, 14),
            "own": None,
        },
    ),
    "Go": (
        GO,
        {
            "Shape": (3, 5),
            "Shape.Area": (4, 4),
            "Box": (8, 10),
            "Box.Top": (9, 9),
            "Alias": (11, 11),
            "E": (14, 14),
            "Box.Area": (16, 18),
            "Map": (20, 20),
            "Area": None,
        },
    ),
    "Rust": (
        RUST,
        {
            "Box": (7, 9),
            "Box.area": (2, 4),
            "Box.side": (8, 8),
            "Color.Green": (11, 11),
            "deep.inner": (13, 13),
            "twice": (15, 15),
            "Shape.area": (16, 16),
            "area": None,
        },
    ),
    "Java": (
        JAVA,
        {
            "Box": (3, 15),
            "Box.side": (5, 5),
            "Box.top": (5, 5),
            "Box.Box": (7, 7),
            "Box.area": (9, 12),
            "Box.Color.GREEN": (14, 14),
            "Point": (16, 16),
            "area": None,
        },
    ),
    "C": (
        C,
        {
            "LIMIT": (1, 1),
            "TWICE": (2, 3),
            "box": (5, 7),
            "box.side": (6, 6),
            "point_t": (8, 8),
            "color.GREEN": (9, 9),
            "area": (13, 16),
            "total": (11, 11),
            "chosen": (17, 17),
            "side": None,
        },
    ),
    "C++": (
        CPP,
        {
            "geo": (1, 10),
            "geo.Box": (2, 8),
            "geo.Box.area": (5, 5),
            "geo.Box.side": (7, 7),
            "geo.Box.late": (11, 13),
            "geo.Id": (9, 9),
            "Box": None,
        },
    ),
}


@pytest.mark.parametrize(
    ("language", "symbol", "lines"),
    [(language, symbol, lines) for language, (_, wanted) in CASES.items() for symbol, lines in wanted.items()],
)
def test_a_symbol_stands_where_it_is_defined(language, symbol, lines):
    assert SYMBOL.fullmatch(symbol)
    assert lines_of(CASES[language][0], symbol, language) == lines


@pytest.mark.parametrize(
    ("hostile", "language"),
    [
        (b"(" * 50_000, "C"),
        (b"if x:\n " * 10_000, "Python"),
        (b"\xff\0def a" * 1000, "Java"),
        (b"x" * (MAX_SOURCE_BYTES + 1), "Go"),
        (b"a," * 300_000, "Rust"),  # half a minute, were it not stopped
    ],
)
async def test_hostile_source_is_just_source_without_the_symbol(hostile, language):
    assert await find_lines(hostile, "nobody", language) is None


async def test_a_process_of_its_own_finds_the_same():
    assert await find_lines(RUST, "Box.area", "Rust") == (2, 4)
    assert await find_lines(RUST, "area", "Rust") is None


def test_broken_source_still_has_its_symbols():
    assert lines_of(b"def a(:\n  )\n\ndef b():\n    return 1\n", "b", "Python") == (4, 5)
    assert lines_of(b"export function b() {\n  return <p>1</p>\n}\n", "b", "TSX") == (1, 3)


@pytest.mark.parametrize(
    ("path", "language"),
    [("a.h", "C++"), ("x/b.MJS", "JavaScript"), ("c.tsx", "TSX"), ("d.rb", None), ("Makefile", None)],
)
def test_a_language_is_known_by_its_suffix(path, language):
    assert language_of(path) == language
