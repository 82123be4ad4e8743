"""The tools for the web, as a worker's operator lets them be."""

from __future__ import annotations

from ..web.access import WebAccess
from .base import Tool
from .webfetch import Check, WebFetch
from .websearch import WebSearch

# What they may be called in a scope, offered or not.
WEB_TOOLS = (WebFetch.name, WebSearch.name)


def web_tools(check: Check, web: WebAccess) -> tuple[Tool, ...]:
    search = () if web.search is None else (WebSearch(web.search),)
    return (WebFetch(check, web.policy), *search)
