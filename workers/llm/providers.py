"""Who can be asked directly: where each provider lives, which wire format it speaks, and where its key stands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from envelope.redaction import register_secret

from .base import Failed, Failure
from .wire import Wire
from .wire_anthropic import AnthropicWire
from .wire_openai import OpenAiWire
from .wire_responses import ResponsesWire

OPENAI, RESPONSES, ANTHROPIC = OpenAiWire(), ResponsesWire(), AnthropicWire()
# OpenAI's own models from gpt-5 on, with tools and effort; chat completions refuse both together from gpt-5.5 on.
_RESPONSES_MODEL = re.compile(r"gpt-([5-9]|\d\d)|o\d+-pro|o3-deep|computer-use|codex")


@dataclass(frozen=True, slots=True)
class Provider:
    """`key_variable` is empty for servers that need no key, `url` for those that everybody runs themselves.

    `reasoning_key`: under what name it wants to see a model's reasoning again.
    """

    wire: Wire
    url: str = ""
    key_variable: str = ""
    url_variables: tuple[str, ...] = ()
    root: str = ""  # what is added to a server's bare address
    reasoning_key: str = ""


# Named as litellm names them, so that a model's name means the same to both engines.
PROVIDERS: dict[str, Provider] = {
    "openai": Provider(OPENAI, "https://api.openai.com/v1", "OPENAI_API_KEY", ("OPENAI_BASE_URL", "OPENAI_API_BASE")),
    "anthropic": Provider(
        ANTHROPIC, "https://api.anthropic.com", "ANTHROPIC_API_KEY", ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE")
    ),
    "deepseek": Provider(
        OPENAI,
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        ("DEEPSEEK_API_BASE",),
        reasoning_key="reasoning_content",
    ),
    "openrouter": Provider(
        OPENAI,
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        ("OPENROUTER_API_BASE",),
        reasoning_key="reasoning",
    ),
    "groq": Provider(OPENAI, "https://api.groq.com/openai/v1", "GROQ_API_KEY", ("GROQ_API_BASE",)),
    "xai": Provider(OPENAI, "https://api.x.ai/v1", "XAI_API_KEY", ("XAI_API_BASE",)),
    "hosted_vllm": Provider(OPENAI, url_variables=("HOSTED_VLLM_API_BASE",)),
    "lm_studio": Provider(OPENAI, url_variables=("LM_STUDIO_API_BASE",)),
    "ollama": Provider(OPENAI, "http://localhost:11434", url_variables=("OLLAMA_API_BASE",), root="/v1"),
    "ollama_chat": Provider(OPENAI, "http://localhost:11434", url_variables=("OLLAMA_API_BASE",), root="/v1"),
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is asked. `at_home`: the server is the provider's own, and not one that only speaks like it."""

    url: str
    key: str = field(repr=False)
    wire: Wire
    provider: str
    model: str
    reasoning_key: str
    at_home: bool


def endpoint(name: str, base_url: str, api_key: str, environ: Mapping[str, str]) -> Endpoint | Failed:
    """Where `provider/model` is asked; the key, wherever it came from, is shown nowhere from now on."""
    prefix, _, model = name.partition("/")
    provider = PROVIDERS.get(prefix)
    if provider is None or not model:
        return Failed(Failure.UNKNOWN_MODEL, f"no provider serves a model called {name!r}")
    own_url = base_url or next((environ[name] for name in provider.url_variables if environ.get(name)), "")
    if not (own_url or provider.url):
        return Failed(
            Failure.BAD_REQUEST, f"where the server of {name!r} is was not said: set {provider.url_variables[0]}"
        )
    # A key of the environment belongs to whoever the environment says: the provider, or the address beside the key.
    key = (api_key or environ.get(provider.key_variable, "")).strip()
    register_secret(key)
    if provider.key_variable and not key:
        return Failed(Failure.AUTH, f"there is no key for {name!r}: set {provider.key_variable}")
    if not key.isascii() or not key.isprintable():
        return Failed(Failure.AUTH, f"the key for {name!r} has characters that no key has")
    wire = _wire(provider, own_url, model)
    return Endpoint(
        _url(own_url or provider.url, provider.root + wire.path),
        key,
        wire,
        prefix,
        model,
        provider.reasoning_key,
        at_home=not own_url,
    )


def _wire(provider: Provider, own_url: str, model: str) -> Wire:
    """An address that ends in /responses says which of OpenAI's two formats its server speaks."""
    if provider.wire is not OPENAI:
        return provider.wire
    is_openai = provider is PROVIDERS["openai"] and not own_url
    speaks_responses = own_url.rstrip("/").endswith(RESPONSES.path) or (is_openai and _RESPONSES_MODEL.match(model))
    return RESPONSES if speaks_responses else OPENAI


def _url(base: str, path: str) -> str:
    """The base may hold a part of the path already, as people copy it from documentation.

    >>> _url("http://here:1/v1/", "/v1/messages"), _url("http://here/chat/completions", "/chat/completions")
    ('http://here:1/v1/messages', 'http://here/chat/completions')
    """
    base = base.rstrip("/")
    parts = path.strip("/").split("/")
    held = next((n for n in range(len(parts), 0, -1) if base.endswith("/" + "/".join(parts[:n]))), 0)
    return "/".join([base, *parts[held:]])
