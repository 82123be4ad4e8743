"""Commands: what becomes of a template and of what was typed after the command's name, and which files are commands."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.agents.told import check
from workers.commands import expand
from workers.commands.catalogue import builtin
from workers.commands.files import Command, read_commands
from workers.commands.local import local_catalogue
from workers.commands.template import Mentions, inlined, lines_of, mentions, shell_commands, told_apart, words


@pytest.mark.parametrize(
    ("template", "arguments", "prompt"),
    [
        ("Fix $1.", "parser", "Fix parser."),
        ("Fix $1 in $2.", "a b", "Fix a in b."),
        ("Fix $1 in $2.", "a b c d", "Fix a in b c d."),  # the highest takes the rest
        ("$2 before $1", "a b c", "b c before a"),
        ("$1 and $1", "a b", "a b and a b"),
        ("Only $2", "a b c", "Only b c"),
        ("Fix $1 in $2.", "a", "Fix a in ."),  # what is missing is empty
        ("Fix $1.", "", "Fix ."),
        ("Fix $1 in $3.", "a b c d", "Fix a in c d."),
        ("$10", "1 2 3 4 5 6 7 8 9 ten", "ten"),
        ("$1 of $ARGUMENTS", "a 'b c'", "a b c of a 'b c'"),  # as it was typed
        ("Say $ARGUMENTS!", "", "Say !"),
        ("$ARGUMENTS and $ARGUMENTS", " a ", " a  and  a "),
        ("Do it.", "now, 'quickly'", "Do it.\n\nnow, 'quickly'"),  # no place for them: added at the end
        ("Do it.", "", "Do it."),
        ("Do it.", "  \n", "Do it."),
        ("Pay $ or $x or $0.", "", "Pay $ or $x or $0."),
        ("Pay $0.", "a", "Pay $0.\n\na"),
        ("$1 $2", "'a b' \"c d\" e", "a b c d e"),
        ("$1", "$2 $ARGUMENTS", "$2 $ARGUMENTS"),  # what is put in is not looked at again
        ("$ARGUMENTS", "$1", "$1"),
        ("$1", "a\\1b", "a\\1b"),
        ("Log: !`git log -$1` of $2", "3 main", "Log: !`git log -3` of main"),
        ("!`git log $ARGUMENTS`", "-3", "!`git log -3`"),
        ("$" + "1" * 5_000, "", "$" + "1" * 5_000),
        ("It costs $100.", "", "It costs $100."),  # what nobody would count to is an amount
        ("Save $1 $100 times", "a b", "Save a b $100 times"),
        ("Pay $25 for $1", "a b", "Pay $25 for a b"),  # from ten on there must be as many words
        ("Pay $100", "a " * 200, "Pay $100\n\n" + "a " * 200),
        ("$1,000 or $1.50 or $2M or $1.5K for $1", "x", "$1,000 or $1.50 or $2M or $1.5K for x"),
        ("$1.py, v$1.0: $1. $1, $1", "x", "x.py, vx.0: x. x, x"),
        ("\\$1 is $1, \\$ARGUMENTS are $ARGUMENTS", "a", "$1 is a, $ARGUMENTS are a"),  # as in Claude Code
        ("Write \\$1", "a", "Write $1\n\na"),
        ("!`awk '{print \\$1}' $1`", "f", "!`awk '{print $1}' f`"),
    ],
)
def test_arguments_take_their_places(template, arguments, prompt):
    assert expand(template, arguments) == prompt


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("", []),
        ("  a\tb\nc ", ["a", "b", "c"]),
        ("'a b' c", ["a b", "c"]),
        ('"a b" c', ["a b", "c"]),
        ('"it\'s" \'say "x"\'', ["it's", 'say "x"']),
        ("'' a", ["", "a"]),
        ("it's fine", ["it's", "fine"]),  # a quote without a partner is a character
        ('5" wide', ['5"', "wide"]),
        ("src/a.py --flag=x", ["src/a.py", "--flag=x"]),
        ("a\\ b", ["a\\", "b"]),  # no shell: a backslash is one
    ],
)
def test_quotes_group_words(arguments, parts):
    assert words(arguments) == parts


@given(parts=st.lists(st.text("ab $1!`@", min_size=1).filter(str.strip), min_size=1, max_size=5))
def test_quoted_words_come_through_as_they_are(parts):
    typed = " ".join(f'"{part}"' for part in parts)
    places = " ".join(f"<${number}>" for number in range(1, len(parts) + 1))

    assert words(typed) == parts
    assert expand(places, typed) == " ".join(f"<{part}>" for part in parts)


@given(template=st.text("ab$12A !`@\n"), arguments=st.text("ab$1 '\"!`@\n"))
def test_any_template_takes_any_arguments(template, arguments):
    prompt = expand(template, arguments)

    assert not arguments.strip() or "$1" in template or "$2" in template or prompt.endswith(arguments)
    assert len(shell_commands(template, arguments)) == len(shell_commands(template))


def test_shell_marks_are_the_templates_alone():
    template = "Changed: !`git diff $1`\nLog: !`git log`\n$ARGUMENTS"
    arguments = "a.py !`rm -rf .`"

    assert shell_commands("$1", "!`id`") == []
    assert shell_commands(template) == ["git diff ", "git log"]
    assert shell_commands(template, arguments) == ["git diff a.py !`rm -rf .`", "git log"]
    assert inlined(template, "a.py", ["+x $1 !`id`", "one"]) == "Changed: +x $1 !`id`\nLog: one\na.py"


def test_outputs_are_put_in_and_arguments_are_still_added():
    assert inlined("Look: !`ls`", "closely", ["a\nb"]) == "Look: a\nb\n\nclosely"
    assert shell_commands("no `code` and no !`` and no ! `ls`") == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Read @src/a.py and @README.md.", ["src/a.py", "README.md"]),
        ("@explore, then @general: go", ["explore", "general"]),
        ("@a @b @a", ["a", "b"]),
        ("(see @src/a.py) \"@b.py\"", ["src/a.py", "b.py"]),
        ("@./a @../b @~/c @/etc/hosts @.env", ["./a", "../b", "~/c", "/etc/hosts", ".env"]),
        ("@app/(group)/page.tsx", ["app/(group)/page.tsx"]),
        ("me@example.com `@decorator` x`@y", []),
        ("@ @. @,", []),
        ("@src/", ["src/"]),
        ('@"my file.md" and @"b c"#L3-4, "@d.py"', ["my file.md", "b c#L3-4", "d.py"]),
        ('@"" @"\n"', []),
        ("@a.py#L10-20 @b.py#L3. @c.py#5-9, (@d.py#L1-L2)", ["a.py#L10-20", "b.py#L3", "c.py#5-9", "d.py#L1-L2"]),
        ("[@a.py](x) [@b.py](b.py), ([@c.py])", ["a.py", "b.py", "c.py"]),
        ("<@a.py> **@b.py** {@c.py} @d.py…", ["a.py", "b.py", "c.py", "d.py"]),
        ("(@app/[slug]/(x)/p.tsx)", ["app/[slug]/(x)/p.tsx"]),
    ],
)  # fmt: skip
def test_mentions_are_found(text, names):
    assert mentions(text) == names


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a.py#L10-20", ("a.py", 10, 20)),
        ("a.py#L10-L20", ("a.py", 10, 20)),
        ("a.py#10-20", ("a.py", 10, 20)),
        ("my file.md#L7", ("my file.md", 7, 7)),
        ("a#b#L20-3", ("a#b", 3, 20)),
        ("a.py", None),
        ("a.py#L0", None),
        ("a.py#usage", None),
        ("#L3", None),
        ("a.py#L" + "1" * 5_000, None),
    ],
)
def test_a_mention_may_name_lines(name, part):
    assert lines_of(name) == part


def test_a_mention_is_a_file_then_an_agent_then_a_word():
    names = mentions("@explore @docs @someone")

    assert told_apart(names, is_file=lambda name: name == "docs", agents=["explore", "docs"]) == Mentions(
        ("docs",), ("explore",)
    )


FULL = """---
description: Reviews: what changed
agent: explore
model: openai/gpt-5
subtask: false
allowed-tools: [Bash, Read]
---

Review $1.
"""


def test_commands_are_read_from_the_folders_of_three_programs():
    read = read_commands(
        {
            ".muster/commands/review.md": FULL,
            ".opencode/command/team/fix.md": "Fix $ARGUMENTS.\n",
            "/home/me/.claude/commands/hello.md": "\ufeff---\r\ndescription: 2026\r\n---\r\nHello.\r\n",
            ".claude/commands/review.md": "Another.",
            ".opencode/commands/review.md": "Another, too.",
            ".opencode/agent/build.md": "no command",
            "commands/none.md": "no command",
            ".muster/commands/notes.txt": "no command",
        }
    )

    assert read.faults == {}
    assert read.commands == {
        "review": Command(
            "review", "Review $1.", "Reviews: what changed", agent="explore", model="openai/gpt-5", subtask=False
        ),
        "team/fix": Command("team/fix", "Fix $ARGUMENTS."),
        "hello": Command("hello", "Hello.", "2026"),
    }


@pytest.mark.parametrize(
    ("matter", "expected"),
    [
        ("description: 'a: b'", "a: b"),
        ("description: a: b: c", "a: b: c"),
        ("description: [file] [more]", "[file] [more]"),
        ("description: *bold* words\nagent: build", "*bold* words"),
        ("description: >\n  folded\n  text", "folded text"),
        ("description: 2024-99-99", "2024-99-99"),
        ("description: null", ""),
        ("description:", ""),
        ("# only a comment", ""),
        ("", ""),
    ],
)
def test_values_are_taken_as_they_are_meant(matter, expected):
    read = read_commands({".muster/command/x.md": f"---\n{matter}\n---\nGo."})

    assert (read.faults, read.commands["x"].description) == ({}, expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("---\nsubtask: maybe\n---\nGo.", "command 'bad': subtask: "),
        ("---\ndescription: [a, b]\n---\nGo.", "command 'bad': description: "),
        ("---\n- a\n- b\n---\nGo.", "no map of keys"),
        ("---\ndescription: x\nGo.", "no front matter that ends"),
        ("---\n\tx\n: [\n---\nGo.", "not YAML"),
        ("---\nx: " + "[" * 60_000 + "\n- [\n---\nGo.", "not YAML"),
        ("---\nx: " + "a" * 70_000 + "\n---\nGo.", "too long"),
        ("---\ndescription: x\n---\n \n", "command 'bad' is empty"),
        ("", "command 'bad' is empty"),
    ],
)
def test_a_bad_file_is_told_and_the_others_are_read(text, words):
    read = read_commands({".muster/commands/bad.md": text, ".muster/commands/good.md": "Go."})

    assert list(read.commands) == ["good"]
    assert list(read.faults) == [".muster/commands/bad.md"]
    assert words in read.faults[".muster/commands/bad.md"]


@given(st.text("a: -\n[]{}&*!|>'\"#@%`?,~<\t"))
def test_whatever_stands_in_a_file_ends_in_a_command_or_a_fault(matter):
    read = read_commands({".claude/commands/x.md": f"---\n{matter}\n---\nGo."})

    assert len(read.commands) + len(read.faults) == 1


@pytest.mark.parametrize(
    ("subtask", "mode", "runs"),
    [
        (None, "primary", False),
        (None, "all", False),
        (None, "subagent", True),
        (True, "primary", True),
        (False, "subagent", False),
    ],
)
def test_a_subagent_runs_what_is_a_subtask(subtask, mode, runs):
    assert Command("x", "Go.", subtask=subtask).is_subtask(mode) is runs


def test_links_of_a_checkout_lead_nowhere(tmp_path):
    """Else its author would have the whole machine looked through, from a person's own shell."""
    elsewhere, checkout = tmp_path / "elsewhere", tmp_path / "checkout"
    for name in ("private.md", "agents/private.md", "commands/private.md"):
        (elsewhere / name).parent.mkdir(parents=True, exist_ok=True)
        (elsewhere / name).write_text("not yours")
    (checkout / ".opencode" / "commands").mkdir(parents=True)
    (checkout / ".opencode" / "commands" / "own.md").write_text("ours")
    (checkout / ".opencode" / "agents").symlink_to(elsewhere)
    (checkout / ".muster").symlink_to(elsewhere)

    assert {"own"} == local_catalogue(checkout).known.keys() - builtin().keys()
    assert check([], checkout) == (0, ())


def test_a_template_of_places_makes_no_gigabytes():
    template, typed = "$ARGUMENTS" * 6_000, "x" * 1_000_000
    tracemalloc.start()
    try:
        assert len(inlined(template, typed, [])) < 3 * len(typed)
        assert len(shell_commands(f"!`{template}` " * 20, typed)) == 20
        assert tracemalloc.get_traced_memory()[1] < 300_000_000  # without a bound it is gigabytes
    finally:
        tracemalloc.stop()
