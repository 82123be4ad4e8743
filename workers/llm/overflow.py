"""Is it the window that is full? Providers say so in some twenty ways. Pure; knows no library."""

from __future__ import annotations

import re

# A whole error page is no help, and no pattern may be kept busy by one.
READ_CHARS = 4000

TOO_LARGE = 413
TOO_MANY = 429
BAD_REQUEST = 400

_GAP = r".{0,120}?"
_N = r"[\d,._]+"

# One wording a line, with who was seen to use it.
WORDINGS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(wording, re.IGNORECASE | re.DOTALL)
    for wording in (
        r"context[_ ](length|window|limit)[_ ](is |was |has been )?exceeded",  # OpenAI's code, z.ai's finish reason
        r"prompt (is |was )?too long",  # Anthropic, Ollama
        r"prompt exceeds (the )?max",  # z.ai
        r"request[_ ](is )?too[_ ]large|(request entity|payload) too large",  # Anthropic; gateways
        r"input (is |was )?too long for",  # Bedrock
        rf"exceeds (the |your |this )?({_GAP} )?context (window|length|limit|size)",  # OpenAI, llama.cpp, vLLM
        r"context (window|length|limit|size) exceeds",  # MiniMax
        r"maximum context (length|window|limit|size)",  # OpenAI, OpenRouter, DeepSeek, Mistral, LiteLLM
        rf"context (length|window|size) (is |of )?(only )?{_N} tokens",  # vLLM
        r"(greater|longer|larger) than the (model'?s )?(maximum )?context (length|window|size)",  # LM Studio, Together
        rf"tokens?\b{_GAP}configured context size",  # small local servers
        rf"input tokens? (count )?{_GAP}exceeds?\b",  # Gemini
        r"maximum prompt length",  # xAI
        r"maximum allowed input length",  # Poolside
        r"range of input length should be",  # DashScope
        r"reduce (the length of )?(the|your) (messages|prompt|input)",  # Groq, OpenAI
        rf"exceeds the limit of {_N}+(?! ?([kmg]i?b|bytes|images|files|tools))",  # Copilot
        rf"exceeds the (maximum|available) {_GAP}tokens",
        r"exceed(s|ed) (the )?(model |maximum )?token limit|token limit (was |is )?exceeded",  # Kimi
        r"too many (input )?tokens",  # Bedrock, and others
        r"input length and `?max_tokens`? exceed context limit",  # Anthropic
    )
)

# A request that is larger than what a minute allows: waiting never helps (Groq, OpenAI).
_LARGER = re.compile(rf"request too large\b.{{0,400}}?\blimit:? ({_N}), requested:? ({_N})", re.IGNORECASE | re.DOTALL)
# In a refusal for too many calls only these words mean the window.
_OF_WINDOW = re.compile(r"context|prompt", re.IGNORECASE)
# The same words in a message about a rate: there waiting helps, and a shorter history does not.
_RATE = re.compile(
    r"rate.?limit|too many requests|throttl|(tokens|requests) per (second|minute|hour|day)", re.IGNORECASE
)
# What a library makes of a refusal that came without a word: Cerebras answers so to a request that is too long.
_WORDLESS = re.compile(r"((error code: ?)?4(00|13) ?(status code)? ?(\(no body\))?)?", re.IGNORECASE)


def is_overflow(text: str, status: int | None = None) -> bool:
    """Does a provider's refusal mean that the request is longer than the model's window?

    `text`: the error as it came, codes included. `status`: of the HTTP answer, None when there was none.

    >>> is_overflow("This model's maximum context length is 8192 tokens.", 400), is_overflow("", 400)
    (True, True)
    >>> is_overflow("Too many tokens per minute: rate limit reached", 429), is_overflow("Bad schema", 400)
    (False, False)
    >>> is_overflow("Request too large for model `m` on tokens per minute (TPM): Limit 8000, Requested 9000", 429)
    True
    """
    read = text[:READ_CHARS]
    if status == TOO_LARGE or _is_larger(read):
        return True
    if _RATE.search(read):
        return False
    words = " ".join(read.split())  # in thousands of spaces the pattern would look for ever
    if status in (BAD_REQUEST, None) and _WORDLESS.fullmatch(words) and (words or status == BAD_REQUEST):
        return True
    found = (wording.search(read) for wording in WORDINGS)
    return any(one and (status != TOO_MANY or _OF_WINDOW.search(one[0])) for one in found)


def _is_larger(read: str) -> bool:
    found = _LARGER.search(read)
    return found is not None and _number(found[2]) > _number(found[1])


def _number(text: str) -> int:
    return int(re.sub(r"[,._]", "", text) or 0)
