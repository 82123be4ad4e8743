"""What a worker is told, what it never shows, and what its errors travel as."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from envelope.errors import ErrorCode
from envelope.redaction import redact
from repo.errors import RepoError
from sandbox.errors import SandboxError, SetupFailed
from workers.cli.usable_settings import usable_settings
from workers.delivery.failures import code_of, error_info
from workers.errors import BadSettings, NoModel, WorkerError
from workers.models import Models
from workers.settings import PriceRow, WorkerSettings
from workers.tools.truncate import truncate


def test_prices_come_from_json_or_from_a_toml_file(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("MUSTER_PRICES", '{"openai/x": {"input": 1, "output": 2}}')
    assert WorkerSettings().price_rows == {"openai/x": PriceRow(input=1, output=2)}

    (tmp_path / "prices.toml").write_text('["openai/y"]\ninput = 3\noutput = 4\ncached = 1\n')
    monkeypatch.setenv("MUSTER_PRICES", str(tmp_path / "prices.toml"))
    assert WorkerSettings().price_rows == {"openai/y": PriceRow(input=3, output=4, cached=1)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("MUSTER_MODEL_REASONING_KEY", key) for key in ("content", "role", "tool_calls", "reasoning_details", "a b")),
        ("MUSTER_MODEL_EFFORT", "hihg"),
        ("MUSTER_MODEL_ENGINE", "direkt"),
    ],
)
def test_a_wrong_setting_of_models_is_refused_with_its_name(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(BadSettings) as raised:
        usable_settings()
    assert raised.value.message.startswith(f"{name} is not usable") and name in raised.value.hint


@pytest.mark.parametrize("key", ["", "none", "reasoning_content", "reasoning", "thinking"])
def test_thoughts_have_a_field_of_their_own(key):
    assert WorkerSettings(model_reasoning_key=key).model_reasoning_key == key


def test_a_misspelt_price_is_refused():
    with pytest.raises(ValidationError):
        WorkerSettings(prices={"openai/x": {"input": 1, "outptu": 2}})


def test_the_models_key_is_shown_by_nothing(monkeypatch):
    monkeypatch.setenv("MUSTER_MODEL_API_KEY", "canary-key-8821")

    settings = WorkerSettings(model="openai/x")
    models = Models(settings.model, api_key=settings.model_api_key.get_secret_value())

    assert "canary" not in repr(settings) + settings.model_dump_json() + repr(models) + repr(models.named("openai/x"))
    assert "canary" not in redact("the key is canary-key-8821")


def test_another_providers_model_gets_neither_the_key_nor_the_address():
    models = Models("openai/x", base_url="http://here", api_key="a-key")

    assert (models.named("openai/z").api_key, models.named("openai/z").base_url) == ("a-key", "http://here")
    assert (models.named("anthropic/y").api_key, models.named("anthropic/y").base_url) == ("", "")


def test_the_first_named_model_counts_and_none_is_an_error_with_a_hint():
    assert Models("own").choose("", "agents") == "agents"
    assert Models("own").choose("", "") == "own"
    with pytest.raises(NoModel) as raised:
        Models().choose("", "")
    assert "MUSTER_MODEL" in raised.value.hint


def leaves(kind: type[Exception]) -> set[type[Exception]]:
    children = kind.__subclasses__()
    return {leaf for child in children for leaf in leaves(child)} if children else {kind}


@pytest.mark.parametrize("kind", sorted(leaves(SandboxError) | leaves(RepoError) | leaves(WorkerError), key=str))
def test_every_error_of_our_own_has_a_code(kind: type[Exception]):
    error = kind.__new__(kind)
    if kind.__name__ != "BadScript":  # of the scripted server, which runs no task
        assert code_of(error) is not ErrorCode.INTERNAL


def test_a_failed_setup_brings_its_output_along():
    info = error_info(SetupFailed("The setup command `x` failed.", output="no such package", hint="look"))

    assert (info.code, info.hint) == (ErrorCode.SETUP_FAILED, "look")
    assert "no such package" in info.message


def test_what_was_not_foreseen_keeps_its_words_to_itself():
    info = error_info(KeyError("a secret in a key"))

    assert info.code is ErrorCode.INTERNAL
    assert "secret" not in info.message + info.hint


@pytest.mark.parametrize(
    ("keep", "limits", "kept", "dropped"),
    [
        ("head", {"max_lines": 2}, "a\nb", 2),
        ("tail", {"max_lines": 2}, "c\nd", 2),
        ("head", {"max_bytes": 3}, "a\nb", 2),
        ("head", {"max_bytes": 100}, "a\nb\nc\nd", 0),
    ],
)
def test_whole_lines_are_kept_up_to_a_limit(keep, limits, kept, dropped):
    cut = truncate("a\nb\nc\nd", keep=keep, **limits)

    assert (cut.text, cut.dropped_lines) == (kept, dropped)


def test_one_line_over_the_limit_is_cut_between_characters():
    assert truncate("ä" * 10, max_bytes=5).text == "ää"
    assert truncate("x\n" + "ä" * 10, keep="tail", max_bytes=5).text == "ää"


def test_the_users_file_speaks_to_workers_in_a_table_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "config.toml"
    file.write_text('model = "openai/x"\n[workers]\nmodel_base_url = "http://127.0.0.1:1/v1"\nslots = 7\n')
    monkeypatch.setenv("MUSTER_CONFIG", str(file))

    settings = WorkerSettings()
    assert (settings.model, settings.model_base_url, settings.slots) == ("openai/x", "http://127.0.0.1:1/v1", 7)

    monkeypatch.setenv("MUSTER_SLOTS", "5")
    assert WorkerSettings().slots == 5, "the environment comes before the file"


def test_what_all_agents_may_do_keeps_its_order_from_a_file_and_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "config.toml"
    file.write_text('[workers.permission]\nwebfetch = "deny"\nbash = {"*" = "ask", "git *" = "allow"}\n')
    monkeypatch.setenv("MUSTER_CONFIG", str(file))

    assert [(rule.permission, rule.pattern, str(rule.action)) for rule in WorkerSettings().permission] == [
        ("webfetch", "*", "deny"),
        ("bash", "*", "ask"),
        ("bash", "git *", "allow"),
    ]

    for written in ('{"edit": "ask"}', '{"write": "ask"}'):
        monkeypatch.setenv("MUSTER_PERMISSION", written)
        assert [rule.permission for rule in WorkerSettings().permission] == ["edit"]
    monkeypatch.setenv("MUSTER_PERMISSION", "ask")
    assert [rule.permission for rule in WorkerSettings().permission] == ["*"]
    monkeypatch.setenv("MUSTER_PERMISSION", '{"bsah": "ask"}')
    with pytest.raises(ValidationError, match="did you mean 'bash'"):
        WorkerSettings()
