"""A search service over HTTP, and what its answers may look like."""

from __future__ import annotations

import socket

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from workers.web.errors import WebError
from workers.web.searching import Found, JsonSearch, found_in

A = {"title": "A", "url": "https://a/", "content": "about\n a"}
FOUND_A = Found("A", "https://a/", "about a")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ({"results": [A]}, [FOUND_A]),
        ([A], [FOUND_A]),
        ({"web": {"results": [{"name": "A", "link": "https://a/", "snippet": "about a"}]}}, [FOUND_A]),
        ({"query": "x", "suggestions": ["y"], "results": [A, {"title": "no url"}, 7, None]}, [FOUND_A]),
        ({"results": [{"url": "https://a/", "title": None, "text": 7}]}, [Found("", "https://a/", "")]),
        ({"results": []}, []),
        ({"error": "no"}, []),
        ("text", []),
        (None, []),
    ],
)
def test_results_are_found_wherever_a_service_puts_them(answer, found):
    assert found_in(answer) == found


JSON = st.recursive(st.none() | st.integers() | st.text(), lambda s: st.lists(s) | st.dictionaries(st.text(), s))


@given(JSON)
def test_any_answer_is_a_list_of_results(answer):
    assert all(one.url for one in found_in(answer))


class Service:
    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.response = web.json_response({"results": [A, A, A]})
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        return self.response


@pytest.fixture
async def service(serve_pages) -> Service:
    service = Service()
    service.url = f"http://127.0.0.1:{await serve_pages(service.answer)}/search?q={{query}}&n={{count}}"
    return service


async def test_a_query_goes_into_the_url_and_the_key_into_a_header(service: Service):
    found = await JsonSearch(service.url, "k").search("a b&n=9 {count}", 2)

    assert found == [FOUND_A, FOUND_A]
    assert dict(service.requests[0].query) == {"q": "a b&n=9 {count}", "n": "2"}
    assert service.requests[0].headers["Authorization"] == "Bearer k"


async def test_a_key_may_have_a_header_of_its_own(service: Service):
    await JsonSearch(service.url, "k", "X-Token").search("a", 2)

    assert service.requests[0].headers["X-Token"] == "k" and "Authorization" not in service.requests[0].headers
    assert "'k'" not in repr(JsonSearch(service.url, "k"))


@pytest.mark.parametrize(
    ("response", "said"),
    [
        ({"status": 401}, "answered 401"),
        ({"status": 302, "headers": {"Location": "/search"}}, "answered 302"),
        ({"text": "<html>"}, "no JSON"),
        ({"text": "[" * 100_000}, "no JSON"),
        ({"text": " " * 5_000_000}, "too much"),
    ],
)
async def test_a_service_that_gives_no_results_says_why(service: Service, response, said):
    service.response = web.Response(**response)

    with pytest.raises(WebError, match=said):
        await JsonSearch(service.url).search("a", 2)


async def test_a_service_that_is_away_is_told():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(WebError, match="try again later"):
        await JsonSearch(f"http://127.0.0.1:{port}/?q={{query}}").search("a", 2)
