"""Who can be asked directly: where each provider lives, which wire format it speaks, and where its key stands."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from envelope.redaction import register_secret

from .base import Failed, Failure
from .efforts import deepseek_efforts, groq_efforts, kimi_efforts, mistral_efforts, no_efforts, xai_efforts, xai_refuses
from .openai_format import NEVER
from .wire import NO_RULES, ChatRules, Wire
from .wire_anthropic import AnthropicWire
from .wire_openai import OpenAiWire
from .wire_responses import ResponsesWire

OPENAI, RESPONSES, ANTHROPIC = OpenAiWire(), ResponsesWire(), AnthropicWire()
# OpenAI's own models from gpt-5 on, with tools and effort; chat completions refuse both together from gpt-5.5 on.
_RESPONSES_MODEL = re.compile(r"gpt-([5-9]|\d\d)|o\d+-pro|o3-deep|computer-use|codex")
# OpenRouter's names of models whose cache is marked.
_MARKED_MODEL = re.compile(r"~?anthropic/")


@dataclass(frozen=True, slots=True)
class Provider:
    """`key_variables` is empty for servers that need no key, `url` for those that everybody runs themselves.

    `model_folder`: what its models' names begin with, where people leave that out.
    """

    wire: Wire
    url: str = ""
    key_variables: tuple[str, ...] = ()
    url_variables: tuple[str, ...] = ()
    root: str = ""  # what is added to a server's bare address
    rules: ChatRules = NO_RULES
    model_folder: str = ""
    is_self_hosted: bool = False  # nobody is paid for it


# What each wants otherwise than OpenAI, by its documentation as seen 2026-11 (openai_items.py has what goes back,
# efforts.py how hard to think):
# docs.x.ai, "Chat": `max_tokens` is deprecated, and thoughts are not read again by this API.
# console.groq.com/docs, "Text Generation": usage comes without being asked for, in `x_groq`.
# api-docs.deepseek.com, "Thinking Mode", and platform.moonshot.ai/docs, "Using Thinking Models": `reasoning_content`
# goes back with calls; that an empty one must, too, stands in bug reports alone.
# docs.z.ai, "Thinking Mode" and "Stream Tool Call": thoughts are kept where `clear_thinking` is false, and arguments
# come as they are made where `tool_stream` is true (from GLM-4.6 on; without it users saw minutes of silence).
# openrouter.ai/docs, "Usage Accounting" and "Prompt Caching".
# Mistral documents none of its three rules; its errors, in bug reports of 2025 and 2026, say them: `stream_options` is
# refused (422), an id has nine letters or digits, and no user's message follows a tool's (3230).
# platform.minimax.io/docs, "Anthropic API": the way in which thoughts come apart from the text, and go back.
_XAI = ChatRules(reasoning_key=NEVER, limit_key="max_completion_tokens", efforts=xai_efforts, refuses=xai_refuses)
_GROQ = ChatRules(takes_stream_options=False, limit_key="max_completion_tokens", efforts=groq_efforts)
_MOONSHOT = ChatRules("reasoning_content", always_reasoning=True, efforts=kimi_efforts)
_DEEPSEEK = replace(_MOONSHOT, efforts=deepseek_efforts)
_ZAI = ChatRules(
    "reasoning_content", extra={"thinking": {"type": "enabled", "clear_thinking": False}, "tool_stream": True}
)
_OPENROUTER = ChatRules(extra={"usage": {"include": True}})
_MISTRAL = ChatRules(takes_stream_options=False, is_mistral=True, efforts=mistral_efforts)

# Named as litellm names them, so that a model's name means the same to both engines.
PROVIDERS: dict[str, Provider] = {
    "openai": Provider(
        OPENAI,
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        rules=ChatRules(reasoning_key=NEVER),
    ),
    "anthropic": Provider(
        ANTHROPIC, "https://api.anthropic.com", ("ANTHROPIC_API_KEY",), ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE")
    ),
    "deepseek": Provider(
        OPENAI, "https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",), ("DEEPSEEK_API_BASE",), rules=_DEEPSEEK
    ),
    "openrouter": Provider(
        OPENAI, "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",), ("OPENROUTER_API_BASE",), rules=_OPENROUTER
    ),
    "groq": Provider(OPENAI, "https://api.groq.com/openai/v1", ("GROQ_API_KEY",), ("GROQ_API_BASE",), rules=_GROQ),
    "xai": Provider(OPENAI, "https://api.x.ai/v1", ("XAI_API_KEY",), ("XAI_API_BASE",), rules=_XAI),
    "zai": Provider(OPENAI, "https://api.z.ai/api/paas/v4", ("ZAI_API_KEY",), ("ZAI_API_BASE",), rules=_ZAI),
    "moonshot": Provider(
        OPENAI, "https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",), ("MOONSHOT_API_BASE",), rules=_MOONSHOT
    ),
    "mistral": Provider(
        OPENAI, "https://api.mistral.ai/v1", ("MISTRAL_API_KEY",), ("MISTRAL_API_BASE",), rules=_MISTRAL
    ),
    "minimax": Provider(
        ANTHROPIC,
        "https://api.minimax.io/anthropic",
        ("MINIMAX_API_KEY",),
        ("MINIMAX_API_BASE",),
        rules=ChatRules(efforts=no_efforts),
    ),
    "dashscope": Provider(
        OPENAI,
        "https://dashscope.aliyuncs.com/compatible-mode/v1",
        ("DASHSCOPE_API_KEY",),
        ("DASHSCOPE_API_BASE",),
    ),
    "together_ai": Provider(
        OPENAI,
        "https://api.together.xyz/v1",
        ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHER_AI_TOKEN"),
        ("TOGETHERAI_API_BASE", "TOGETHER_AI_API_BASE"),
    ),
    "fireworks_ai": Provider(
        OPENAI,
        "https://api.fireworks.ai/inference/v1",
        ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY", "FIREWORKSAI_API_KEY", "FIREWORKS_AI_TOKEN"),
        ("FIREWORKS_API_BASE",),
        model_folder="accounts/fireworks/models/",
    ),
    "hosted_vllm": Provider(OPENAI, url_variables=("HOSTED_VLLM_API_BASE",), is_self_hosted=True),
    "lm_studio": Provider(OPENAI, url_variables=("LM_STUDIO_API_BASE",), is_self_hosted=True),
    "ollama": Provider(
        OPENAI, "http://localhost:11434", url_variables=("OLLAMA_API_BASE",), root="/v1", is_self_hosted=True
    ),
    "ollama_chat": Provider(
        OPENAI, "http://localhost:11434", url_variables=("OLLAMA_API_BASE",), root="/v1", is_self_hosted=True
    ),
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is asked. `at_home`: the server is the provider's own, and not one that only speaks like it."""

    url: str
    key: str = field(repr=False)
    wire: Wire
    provider: str
    model: str
    rules: ChatRules
    at_home: bool


def endpoint(
    name: str, base_url: str, api_key: str, environ: Mapping[str, str], reasoning_key: str = ""
) -> Endpoint | Failed:
    """Where `provider/model` is asked; the key, wherever it came from, is shown nowhere from now on."""
    prefix, _, model = name.partition("/")
    provider = PROVIDERS.get(prefix)
    if provider is None or not model:
        return Failed(Failure.UNKNOWN_MODEL, f"no provider serves a model called {name!r}")
    own_url = _own_url(provider, base_url, environ)
    if not (own_url or provider.url):
        return Failed(
            Failure.BAD_REQUEST, f"where the server of {name!r} is was not said: set {provider.url_variables[0]}"
        )
    # A key of the environment belongs to whoever the environment says: the provider, or the address beside the key.
    key = api_key or next((environ[one] for one in provider.key_variables if environ.get(one)), "")
    key = key.strip()
    register_secret(key)
    if provider.key_variables and not key:
        own = "; for a server of your own that wants none, MUSTER_MODEL_API_KEY=none" if own_url else ""
        return Failed(Failure.AUTH, f"there is no key for {name!r}: set {provider.key_variables[0]}{own}")
    if not key.isascii() or not key.isprintable():
        return Failed(Failure.AUTH, f"the key for {name!r} has characters that no key has")
    try:
        holds_user = "@" in urlsplit(own_url).netloc
    except ValueError:
        return Failed(Failure.BAD_REQUEST, f"the address for {name!r} is no address of a model server")
    wire = _wire(provider, own_url, model)
    if holds_user and key and wire is not ANTHROPIC:  # both would be the request's one `Authorization`
        return Failed(Failure.BAD_REQUEST, f"the address for {name!r} holds a user or a password beside the key")
    if provider.model_folder and not own_url and "/" not in model:
        model = provider.model_folder + model
    return Endpoint(
        _url(own_url or provider.url, provider.root + wire.path),
        key,
        wire,
        prefix,
        model,
        _rules(prefix, own_url, model, reasoning_key),
        at_home=not own_url,
    )


def is_private(name: str, base_url: str, environ: Mapping[str, str]) -> bool:
    """Is the model asked at an address of this machine, or of a private network?

    >>> is_private("openai/x", "http://10.0.0.5:8000/v1", {}), is_private("openai/x", "", {})
    (True, False)
    >>> is_private("openai/x", "https://api.example/v1", {})
    False
    """
    provider = PROVIDERS.get(name.partition("/")[0])
    host = urlsplit(_own_url(provider, base_url, environ)).hostname or "" if provider else ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_private
    except ValueError:
        return False


def _own_url(provider: Provider, base_url: str, environ: Mapping[str, str]) -> str:
    return base_url or next((environ[name] for name in provider.url_variables if environ.get(name)), "")


def _wire(provider: Provider, own_url: str, model: str) -> Wire:
    """An address that ends in /responses says which of OpenAI's two formats its server speaks, and MiniMax has its
    other one beside /anthropic."""
    if provider is PROVIDERS["minimax"]:
        return ANTHROPIC if not own_url or "/anthropic" in own_url else OPENAI
    if provider.wire is not OPENAI:
        return provider.wire
    is_openai = provider is PROVIDERS["openai"] and not own_url
    speaks_responses = own_url.rstrip("/").endswith(RESPONSES.path) or (is_openai and _RESPONSES_MODEL.match(model))
    return RESPONSES if speaks_responses else OPENAI


def _rules(prefix: str, own_url: str, model: str, reasoning_key: str) -> ChatRules:
    """The provider's, also where it is asked as if it were OpenAI. `reasoning_key`: what an operator says of it."""
    provider = PROVIDERS[prefix]
    if prefix == "openai" and own_url:
        host = urlsplit(own_url).hostname
        provider = next((one for one in PROVIDERS.values() if urlsplit(one.url).hostname == host), None)
    rules = provider.rules if provider else NO_RULES
    if provider is PROVIDERS["openrouter"] and _MARKED_MODEL.match(model):
        rules = replace(rules, cache_marks=True)
    return replace(rules, reasoning_key=reasoning_key) if reasoning_key else rules


def _url(base: str, path: str) -> str:
    """The base may hold a part of the path already, as people copy it from documentation.

    >>> _url("http://here:1/v1/", "/v1/messages"), _url("http://here/chat/completions", "/chat/completions")
    ('http://here:1/v1/messages', 'http://here/chat/completions')
    """
    base = base.rstrip("/")
    parts = path.strip("/").split("/")
    held = next((n for n in range(len(parts), 0, -1) if base.endswith("/" + "/".join(parts[:n]))), 0)
    return "/".join([base, *parts[held:]])
