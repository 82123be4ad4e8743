"""Which words for how hard to think each model takes in OpenAI's formats, and which of them comes nearest. Pure.

Others refuse the whole request for a word that they do not know, or take it silently for nothing. By version and not
by name, so that next month's model is asked like the last one before it. Pages as seen 2026-11-27:

- developers.openai.com, "Reasoning models": `minimal` was gpt-5's alone, `none` came with 5.1, `xhigh` with 5.2, `max`
  with 5.6; those for code know neither end, and pro models think hard. Models that do not think take no word.
- docs.x.ai, "Reasoning": grok-3-mini takes two words, 4.3 can be told not to think, 4.5 and later always do, `xhigh` is
  there from 4.6 on. All others (grok-3, 4, 4-fast, 4.20, code) refuse the field; of a multi-agent model it says
  how many agents work together.
- docs.mistral.ai, "Adjustable" reasoning: `none` and `high`, for small from 26.03, medium from 3.5, large from 4
  on. Magistral always thinks. What medium-3 takes stands in the list of prices alone.
- platform.kimi.ai, "Thinking effort" (read in what others cite of it): K3 takes `low`, `high`, `max`. K2 takes no word,
  and says nothing when it hears one.
- console.groq.com, "Reasoning": gpt-oss takes three words; Qwen's are others (`none`, `default`), the rest take none.
- api-docs.deepseek.com, "Thinking Mode": `high` and `max`; others are taken for one of them.
- platform.minimax.io, "Anthropic API" and "OpenAI API": thinking is on or off, there is no effort.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

RANKS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
USUAL = ("none", "minimal", "low", "medium", "high")  # of servers that nobody knows: `high` all have
_NONE_TO_XHIGH = ("none", "low", "medium", "high", "xhigh")

_GPT = re.compile(r"(?:.*/)?gpt-(\d+)(?:\.(\d+))?(?!\d)(?P<kind>.*)")
_O = re.compile(r"(?:.*/)?(o\d|gpt-oss)(?!\w*-preview)")
_THINKS_NOT = re.compile(r"(?:.*/)?(chatgpt-|gpt-(3|4|\d+(\.\d+)?-(chat|search)))")
_GROK = re.compile(r"grok-(\d)(?:[.](\d)(?!\d))?(?P<kind>.*)")
_MISTRAL = re.compile(
    r"mistral-(small-(latest|26|2[7-9])|medium(-latest|-3([.-]5)?)?$|medium-(26|2[7-9])|large-([4-9]$|[4-9][.-]|2[7-9])"
    r"|vibe-cli)"
)
_MISTRALS_GLM = re.compile(r"(zai-)?glm")
_KIMI = re.compile(r"kimi-k([3-9]|\d\d)")


def nearest(known: Sequence[str], wanted: str) -> str:
    """The word that comes nearest, and of two the cheaper; empty where the model takes none.

    >>> nearest(("low", "high", "max"), "medium"), nearest(("none", "high"), "low"), nearest((), "high")
    ('low', 'none', '')
    >>> nearest(("low", "medium", "high"), "max"), nearest(("high",), "of next year")
    ('high', 'of next year')
    """
    if not known or wanted not in RANKS:
        return wanted if known else ""
    rank = RANKS.index(wanted)
    return min(known, key=lambda word: (abs(RANKS.index(word) - rank), RANKS.index(word)))


def openai_efforts(model: str) -> Sequence[str]:
    """Also for whoever runs OpenAI's models, or others that nobody knows.

    >>> [nearest(openai_efforts(name), "max") for name in ("gpt-6-sol", "gpt-5.6", "x/gpt-5.2", "gpt-5", "o3", "qwen3")]
    ['max', 'max', 'xhigh', 'high', 'high', 'high']
    >>> [nearest(openai_efforts(name), "none") for name in ("gpt-5", "gpt-5.5", "gpt-6-pro", "gpt-4.1", "gpt-oss")]
    ['minimal', 'none', 'medium', '', 'low']
    """
    if _THINKS_NOT.match(model):
        return ()
    if _O.match(model):
        return ("low", "medium", "high")
    found = _GPT.match(model)
    if found is None:
        return USUAL
    version = (int(found[1]), int(found[2] or 0))
    if "pro" in found["kind"].split("-"):
        return ("medium", "high", "xhigh") if version >= (5, 2) else ("high",)
    if "codex" in found["kind"]:
        highest = ("xhigh",) if version >= (5, 2) or "codex-max" in found["kind"] else ()
        return ("low", "medium", "high", *highest)
    if version < (5, 1):
        return ("minimal", "low", "medium", "high")
    if version < (5, 2):
        return ("none", "low", "medium", "high")
    return (*_NONE_TO_XHIGH, "max") if version >= (5, 6) else _NONE_TO_XHIGH


def xai_efforts(model: str) -> Sequence[str]:
    """
    >>> [nearest(xai_efforts(name), "max") for name in ("grok-4.6", "grok-4.5", "grok-4.20", "grok-4-0709")]
    ['xhigh', 'high', '', '']
    """
    found = _GROK.match(model)
    if found is None or "multi-agent" in model or "non-reasoning" in model:
        return ()
    version = (int(found[1]), int(found[2] or 0))
    if version == (3, 0) and found["kind"].startswith("-mini"):
        return ("low", "high")
    if version == (4, 3):
        return ("none", "low", "medium", "high")
    if version >= (4, 6):
        return ("low", "medium", "high", "xhigh")
    return ("low", "medium", "high") if version >= (4, 4) else ()


def xai_refuses(model: str) -> Sequence[str]:
    """Options that its models which think answer with 400 (docs.x.ai, "Reasoning", 2026-11).

    >>> [bool(xai_refuses(name)) for name in ("grok-4", "grok-code-fast-1", "grok-3", "grok-4-fast-non-reasoning")]
    [True, True, False, False]
    """
    thinks = re.match(r"grok-(3-mini|[4-9]|code)", model) and "non-reasoning" not in model
    return ("presence_penalty", "frequency_penalty", "stop") if thinks else ()


def mistral_efforts(model: str) -> Sequence[str]:
    """
    >>> [mistral_efforts(f"mistral-{name}") for name in ("small-2603", "medium-3.5", "large-2512", "small-2506")]
    [('none', 'high'), ('none', 'high'), (), ()]
    """
    if _MISTRALS_GLM.match(model):
        return ("low", "high", "max")
    return ("none", "high") if _MISTRAL.match(model) else ()


def kimi_efforts(model: str) -> Sequence[str]:
    """
    >>> kimi_efforts("kimi-k3.1-pro"), kimi_efforts("kimi-k2.6")
    (('low', 'high', 'max'), ())
    """
    return ("low", "high", "max") if _KIMI.match(model) else ()


def groq_efforts(model: str) -> Sequence[str]:
    return openai_efforts(model) if "gpt-oss" in model else ()


def deepseek_efforts(model: str) -> Sequence[str]:
    return ("high", "max")


def no_efforts(model: str) -> Sequence[str]:
    return ()
