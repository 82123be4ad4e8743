"""Suite files: what is wrong with one is said in a sentence, with the place and what to try."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import BadBatchFile
from orchestrator.evaluation.file import load_suite, parse_suite
from orchestrator.evaluation.matrix import Sample, prompt_of, samples_of, variants_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "evaluation" / "suite.toml"
GOOD = """
name = "words"
repository = { folder = "project" }
[gate]
commands = ["run-tests"]
[prompts]
plain = "{prompt}"
careful = "Think first. {prompt}"
[[cases]]
name = "one"
prompt = "Do one"
[[cases]]
name = "two"
prompt = "Do two"
"""


def test_the_example_is_a_suite():
    spec = load_suite(EXAMPLE)

    assert [variant.model for variant in variants_of(spec)] == ["openai/careful", "openai/hasty"]
    assert spec.gate is not None and spec.gate.rules().known_failures == "reject"


def test_each_combination_of_the_matrix_is_a_variant_beside_those_that_are_written_out():
    text = GOOD + '[matrix]\nmodel = ["a/x", "b/y"]\nprompt = ["plain", "careful"]\n[[variants]]\nname = "mine"\n'
    found = variants_of(parse_suite(text))

    assert [variant.name for variant in found] == ["a-x_plain", "a-x_careful", "b-y_plain", "b-y_careful", "mine"]


def test_without_variants_the_workers_own_model_tries_alone():
    [variant] = variants_of(parse_suite(GOOD))
    assert (variant.agent, variant.model) == ("build", "")


def test_first_tries_of_all_come_before_second_ones():
    spec = parse_suite(GOOD.replace('name = "words"', 'name = "words"\nsamples = 2'))
    assert [one.key for one in samples_of(spec, variants_of(spec))] == [
        "one/build/1", "two/build/1", "one/build/2", "two/build/2",
    ]  # fmt: skip


def test_a_template_puts_the_cases_prompt_in_its_place():
    spec = parse_suite(GOOD + '[[variants]]\nname = "v"\nprompt = "careful"\n')
    [variant] = variants_of(spec)
    assert prompt_of(spec, Sample(spec.cases[0], variant, 1)) == "Think first. Do one"


@pytest.mark.parametrize(
    ("wrong", "message", "hint"),
    [
        (GOOD.replace("commands", "comands"), "suite.toml:5: unknown key 'gate.comands'", "did you mean 'commands'?"),
        (GOOD.replace("[gate]", "samles = 3\n[gate]"), "suite.toml:4: unknown key 'samles'", "did you mean 'samples'?"),
        (GOOD.replace('name = "two"', 'name = "one"'), "two of the cases are named 'one'", "examples/evaluation"),
        (GOOD.replace('"Think first. {prompt}"', '"Think."'), "prompts.careful has no {prompt}", "examples/evaluation"),
        (GOOD.replace('[gate]\ncommands = ["run-tests"]', ""), "nothing would be judged", "examples/evaluation"),
        (GOOD.replace('repository = { folder = "project" }', ""), "has no `repository`", "examples/evaluation"),
        (GOOD.replace('folder = "project"', 'folder = "p", path = "."'), "say one of `path`, `url` and `folder`", ""),
        (GOOD.replace('folder = "project"', 'folder = "p", base = "main"'), "a `folder` has no commits", ""),
        (GOOD + '[matrix]\nprompt = ["plian"]\n', "names the prompt 'plian'", "did you mean 'plain'?"),
        (GOOD.replace("[gate]", 'baseline = "biuld"\n[gate]'), "baseline names 'biuld'", "did you mean 'build'?"),
        (GOOD.replace("[gate]", "samples = 0\n[gate]"), "suite.toml:4: samples: ", "examples/evaluation"),
        (GOOD + "[limits]\nbudget_usd = -1\n", "limits.budget_usd: ", "examples/evaluation"),
        ("name = ", "suite.toml is not TOML", ""),
    ],
)
def test_what_is_wrong_is_said_with_its_place(wrong: str, message: str, hint: str):
    with pytest.raises(BadBatchFile) as raised:
        parse_suite(wrong)

    assert message in raised.value.message
    assert hint in raised.value.hint


def test_a_suite_of_too_many_samples_is_refused():
    cases = "".join(f'[[cases]]\nname = "c{number}"\nprompt = "p"\n' for number in range(99))
    with pytest.raises(BadBatchFile, match="10100 samples, more than 5000"):
        parse_suite(GOOD.replace("[gate]", "samples = 100\n[gate]") + cases)


def test_a_matrix_of_too_many_variants_is_refused_before_it_is_written_out():
    axis = ", ".join(f'"m{number}"' for number in range(300))
    matrix = f"[matrix]\nmodel = [{axis}]\nagent = [{axis}]\ntemperature = [{', '.join(['0.5'] * 300)}]\n"
    with pytest.raises(BadBatchFile, match="27000000 variants, more than 100"):
        parse_suite(GOOD + matrix)


def test_a_suite_may_be_yaml():
    text = "name: w\nrepository: {folder: p}\ngate: {commands: [t]}\ncases: [{name: one, prompt: Do it}]\n"
    assert parse_suite(text, name="suite.yaml").cases[0].prompt == "Do it"
