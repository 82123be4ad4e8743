"""What is made of HTML, as pairs of a page and its text."""

from __future__ import annotations

import html
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.web import markdown
from workers.web.fetching import MAX_BODY_BYTES
from workers.web.markdown import MAX_CHARS, to_markdown, to_text

PAGE = "https://example.com/docs/page"


@pytest.mark.parametrize(
    ("page", "markdown"),
    [
        ("", ""),
        ("plain words", "plain words"),
        ("<h1>One</h1><h3>Three</h3><p>Text.</p>", "# One\n\n### Three\n\nText."),
        ("<p>a\n  b</p>\n\n<p>c</p>", "a b\n\nc"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<b>x</b> <em>y</em> <code>z</code>", "**x** _y_ `z`"),
        ("<a href='/a'>A</a>", "[A](https://example.com/a)"),
        ("<a href=b?c=d&amp;e>B</a>", "[B](https://example.com/docs/b?c=d&e)"),
        ("<a href='javascript:x()'>no</a> <a href='#part'>part</a> <a>bare</a>", "no part bare"),
        ("<a href='/a (b)'>A</a>", "[A](https://example.com/a%20%28b%29)"),
        ("<a href=/a>A<a href=/b>B</a>", "[A](https://example.com/a)[B](https://example.com/b)"),
        ("<img src=x alt='a cat'> <img src=y>", "[image: a cat]"),
        ("<ul><li>a<li>b</ul>", "- a\n- b"),
        ("<ol><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ol>", "1. a\n2. b\n   - c\n3. d"),
        ("x<blockquote>a<br>b<p>c<blockquote>d</blockquote></blockquote>e", "x\n\n> a\n> b\n>\n> c\n>\n> > d\n\ne"),
        ("<pre>if x:\n    y &lt; z\n</pre>after", "```\nif x:\n    y < z\n\n```\n\nafter"),
        ("<pre><code>a  <b>b</b></code></pre>", "```\na  b\n```"),
        ("<table><tr><th>a</th><th>b</th></tr><tr><td>1<td>2</td></tr></table>", "a | b\n1 | 2"),
        ("a<hr>b", "a\n\n---\n\nb"),
        ("&lt;b&gt; &eacute;&#233;&#xe9; &amp;amp; &nosuch;", "<b> ééé &amp; &nosuch;"),
        ("<script>var a = '<p>no</p>'</script>yes<style>p{}</style>", "yes"),
        ("<head><title>no</title><body>yes", "yes"),
        ("<svg><svg></svg><text>no</text></svg>yes<noscript>no</noscript>", "yes"),
        ("<!-- <p>no</p> -->yes<!doctype x><?php no ?>", "yes"),
        ("1 < 2 <3 <> </ >x", "1 < 2 <3 <> x"),
        ("<p title='a>b'>x</p>", "x"),
        ("<P CLASS=a>x</P >", "x"),
        ("yes<!-- never closed <p>no", "yes"),
        ("yes<a href='never closed", "yes"),
        ("yes<script>never closed", "yes"),
        ("</ul></li></blockquote></a></pre>yes", "yes"),
        ("<SCRIPT>no</ScRiPt >yes", "yes"),
    ],
)
def test_html_becomes_markdown(page, markdown):
    assert to_markdown(page, PAGE) == markdown


def test_plain_text_has_no_marks_and_no_links():
    page = "<h2>One</h2><p>See <a href='/b'><b>two</b></a>.</p><ul><li>x</ul><blockquote>q</blockquote><pre>  c</pre>"

    assert to_text(page) == "One\n\nSee two.\n\n- x\n\nq\n\n  c"


@given(st.text(st.sampled_from("<>/!-&#;\"'= abliupre1\n"), max_size=200))
def test_any_text_is_a_page_and_its_words_stay(page):
    assert to_markdown(f"first<p>{page}", PAGE).startswith("first")
    assert to_text(f"<p>{html.escape(page)}</p>") == "\n".join(" ".join(page.split()).splitlines())


@pytest.mark.parametrize("piece", ["<blockquote>", "<ul><li>", "<a href=a>x", "<!--", "<a ", "</", "<pre>\n", "<b"])
def test_a_page_made_to_grow_stays_within_bounds(piece):
    assert len(to_markdown(piece * 20_000, PAGE + "x" * 2000)) <= MAX_CHARS


@pytest.mark.parametrize("piece", ["<", "<b>"])
def test_the_largest_page_of_anything_is_read_in_time(piece, monkeypatch):
    monkeypatch.setattr(markdown, "MAX_READ_S", 0.2)
    started_s = time.thread_time()
    to_markdown(piece * (MAX_BODY_BYTES // len(piece)) + "x")

    assert time.thread_time() - started_s < 2
