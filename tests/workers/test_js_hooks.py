"""A failing hook of jest and vitest is no failure of a test's own body. The outputs: jest 29, vitest 2."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from envelope.recipe import RecipeParams
from tests.chaos.lab.bare import BareSandbox, bare_python
from workers.recipes.commands import run_recipe
from workers.recipes.js_hooks import Source

SOURCE = """const connect = () => { throw new Error("no database :)") }; // it's (
function setUp() {
  connect();
}
describe("each", () => {
  beforeEach(setUp);
  it("is one", () => {});
});
describe("slow", () => {
  beforeEach(() => new Promise(() => {}), 50);
  it("is two", () => {});
});
it("slow", () => new Promise(() => {}), 50);
describe("after", () => {
  afterEach(async () => {
    await new Promise((done) => setTimeout(done, 5));
    connect();
  });
  it.each([1, 2])("is %d", () => {});
});
it.each([1, 2])("own %d", () => { connect(); });
test("fine", () => {});
"""
JEST = """FAIL ./a.test.js
  ● each › is one

    no database

    > 1 | const connect = () => { throw new Error("no database :)") };
        |                               ^

      at connect (a.test.js:1:31)
      at Object.connect (a.test.js:3:3)

  ● slow › is two

    thrown: "Exceeded timeout of 50 ms for a hook.
    Add a timeout value to this test to increase the timeout, if this is a long-running test."

      at beforeEach (a.test.js:10:3)
      at Object.describe (a.test.js:9:1)

  ● slow

    thrown: "Exceeded timeout of 50 ms for a test.

      at Object.it (a.test.js:13:1)

  ● after › is 1

    no database

      at connect (a.test.js:1:31)
      at Object.connect (a.test.js:17:5)
      at node_modules/jest-circus/build/run.js:3:5

  ● own 1

    no database

      at connect (a.test.js:1:31)
      at connect (a.test.js:21:35)

Test Suites: 1 failed, 1 total
Tests:       5 failed, 1 passed, 6 total
"""
VITEST = """⎯⎯⎯⎯⎯⎯⎯ Failed Tests 6 ⎯⎯⎯⎯⎯⎯⎯

 FAIL  a.test.js > each > is one
Error: no database
 ❯ connect a.test.js:1:31
 ❯ setUp a.test.js:3:3

⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[1/6]⎯

 FAIL  a.test.js > slow > is two
Error: Hook timed out in 50ms.
⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[2/6]⎯

 FAIL  a.test.js > slow
Error: Test timed out in 50ms.
⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[3/6]⎯

 FAIL  a.test.js > after > is 1
 FAIL  a.test.js > after > is 2
Error: no database
 ❯ connect a.test.js:1:31
 ❯ a.test.js:17:5

⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[4/6]⎯

 FAIL  a.test.js > own 1
Error: no database
 ❯ connect a.test.js:1:31
 ❯ a.test.js:21:35

⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[5/6]⎯

 Test Files  1 failed (1)
      Tests  6 failed | 1 passed (7)
"""


@pytest.mark.parametrize(("output", "failed", "errors"), [(JEST, 2, 3), (VITEST, 2, 4)], ids=["jest", "vitest"])
async def test_tests_that_failed_in_a_hook_are_errors(output: str, failed: int, errors: int, tmp_path: Path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.test.js").write_text(SOURCE)
    (tmp_path / "project" / "output").write_text(output)
    sandbox = BareSandbox(tmp_path / "project", bare_python(tmp_path / "python"))
    try:
        recipe = RecipeParams(commands=("cat output; exit 1",), control=False)
        [step] = await run_recipe(sandbox, recipe, lambda _: None, counts_tests=True)  # pyright: ignore[reportArgumentType]
    finally:
        sandbox.close()

    assert step.tests is not None
    assert (step.tests.failed, step.tests.errors, step.tests.passed) == (failed, errors, 1)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("beforeAll(async () => {\n  if (x) {\n    @fails();\n  }\n});", True),
        ("const setUp = async () => {\n  @fails();\n};\nbeforeEach(setUp);", True),
        ("const help = () => {\n  @fails();\n};\nbeforeEach(setUp);", False),
        ("beforeEach(() => {});\ntest('a', () => {\n  @fails();\n});", False),
        ("test.each([[1], [2]])('a %d', (n) => {\n  @fails();\n});", False),
        ("describe('a', () => {\n  beforeEach(() => {});\n  @fails();\n});", False),
        ("it('does (not', () => {\n  const s = `beforeEach( ${x}`;\n  @fails();\n});", False),
        ("", False),
    ],
)
def test_a_place_is_in_a_hook_where_the_innermost_hook_or_test_around_it_is_one(source: str, expected: bool):
    before = source.partition("@")[0]
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1

    assert Source(source.replace("@", "")).has_in_hook(line, column) is expected


@pytest.mark.parametrize(
    "source", ["`" + "\\`" * 400_000, "'\\'" * 300_000, "/*" * 500_000, "(" * 1_000_000, "f." * 500_000]
)
def test_a_hostile_file_is_read_at_once(source: str):
    began_s = time.process_time()
    Source(source).has_in_hook(1, len(source))
    assert time.process_time() - began_s < 3
