"""Files in messages: what is shown of them, in which words, and in either format."""

from __future__ import annotations

import base64

import pytest

from workers.agent.compaction import Compaction, message_tokens
from workers.agent.pruning import CLEARED
from workers.agent.session import Session
from workers.agent.shown import shown
from workers.llm.base import ChatMessage, FilePart, ToolCall
from workers.llm.files import IMAGE_TOKENS, MAX_SHOWN_FILES, media_type_of, to_show, with_files
from workers.llm.providers import ANTHROPIC, OPENAI
from workers.llm.seeing import Seeing
from workers.llm.wire import Question

ALL = frozenset({"image", "pdf"})
SHOT = FilePart(blob="b1", media_type="image/png", name="shot.png", size_bytes=5, data="c2hvdA==")
PAPER = FilePart(blob="b2", media_type="application/pdf", name="paper.pdf", size_bytes=7, data="cGRm")
CALLS = tuple(ToolCall(id=f"c{n}", name="read", arguments="{}", input={}) for n in (1, 2))
HISTORY = [
    ChatMessage(role="user", content="Look.", files=(SHOT,)),
    ChatMessage(role="assistant", tool_calls=CALLS, reasoning="hm"),
    ChatMessage(role="tool", tool_call_id="c1", name="read", content="a paper", files=(PAPER,)),
    ChatMessage(role="tool", tool_call_id="c2", name="read", content="text"),
]


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n....", "image/png"),
        (b"\xff\xd8\xff\xe0....", "image/jpeg"),
        (b"GIF87a....", "image/gif"),
        (b"%PDF-1.7\n", "application/pdf"),
        (b"\x89PNG", ""),
        (b"plain text", ""),
        (b"", ""),
    ],
)
def test_a_file_is_what_its_content_says(content, media_type):
    assert media_type_of(content) == media_type


def test_in_the_format_of_openai_a_tools_files_follow_all_answers_of_its_turn():
    go_on = ChatMessage(role="user", content="go on")

    sent = OPENAI.body(Question("m", "openai/m", [*HISTORY, go_on], ()))["messages"]

    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user", "user"]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,c2hvdA=="}}
    assert sent[0]["content"] == [{"type": "text", "text": "Look."}, image]
    paper = {"filename": "paper.pdf", "file_data": "data:application/pdf;base64,cGRm"}
    assert sent[4]["content"] == [{"type": "text", "text": "From read, call c1:"}, {"type": "file", "file": paper}]
    assert sent[5]["content"] == "go on"
    assert OPENAI.body(Question("m", "openai/m", HISTORY, ()))["messages"][-1] == sent[4]


def test_in_the_format_of_anthropic_a_tools_files_stand_in_its_answer():
    sent = ANTHROPIC.body(Question("m", "anthropic/m", HISTORY, ()))["messages"]

    image = {"type": "base64", "media_type": "image/png", "data": "c2hvdA=="}
    assert sent[0]["content"][0] == {"type": "image", "source": image}
    assert sent[0]["content"][1]["text"] == "Look."
    paper = {"type": "base64", "media_type": "application/pdf", "data": "cGRm"}
    text = {"type": "text", "text": "a paper"}
    assert sent[2]["content"][0]["content"] == [text, {"type": "document", "source": paper}]
    assert sent[2]["content"][1]["content"] == "text"


@pytest.mark.parametrize(
    ("sees", "kept", "words"),
    [
        (ALL, ["b1", "b2"], ""),
        (frozenset({"image"}), ["b1"], "paper.pdf (application/pdf, 7 bytes) is not shown: this model takes no such"),
        (frozenset(), [], "shot.png (image/png, 5 bytes) is not shown: this model takes no such"),
    ],
)
def test_what_a_model_cannot_see_it_is_told_of(sees, kept, words):
    blobs = to_show(HISTORY, sees)

    sent = with_files(HISTORY, dict.fromkeys(blobs, "eA=="), sees)

    assert [file.blob for message in sent for file in message.files] == kept
    assert words in "".join(message.content for message in sent)
    assert sent[3] is HISTORY[3]


def test_the_newest_files_are_shown_as_far_as_there_is_room():
    many = [
        ChatMessage(role="user", files=(FilePart(blob=str(n), media_type="image/png", size_bytes=1),))
        for n in range(MAX_SHOWN_FILES + 1)
    ]
    large = [
        ChatMessage(role="user", files=(FilePart(blob=str(n), media_type="image/png", size_bytes=3_700_000),))
        for n in range(5)
    ]

    assert "0" not in to_show(many, ALL) and len(to_show(many, ALL)) == MAX_SHOWN_FILES
    assert to_show(large, ALL) == {"1", "2", "3", "4"}
    sent = with_files(large, dict.fromkeys(to_show(large, ALL), "eA=="), ALL)
    assert "is not shown any more; read it again" in sent[0].content


async def test_contents_are_loaded_once_and_stored_nowhere(serve):
    loads: list[str] = []

    async def load(blob: str) -> bytes | None:
        loads.append(blob)
        return b"shot" if blob == "b1" else None

    class Heard:
        name = "openai/m"

        def __init__(self) -> None:
            self.asked: list = []

        async def stream(self, messages, tools, tool_choice="auto"):
            self.asked.append(messages)
            for event in ():
                yield event

    model, stored = Heard(), [message.model_copy(update={"files": ()}) for message in HISTORY[1:]]
    history = [ChatMessage(role="user", content="Look.", files=(SHOT.model_copy(update={"data": ""}),)), *stored]
    seeing = Seeing(model, ALL, load)
    for _ in range(2):
        assert [event async for event in seeing.stream(history, [])] == []

    assert loads == ["b1"]
    assert model.asked[1][0].files[0].data == base64.b64encode(b"shot").decode()
    assert "c2hvdA" not in Session(agent="a", model="m", messages=tuple(model.asked[1])).dump().decode()


def test_files_count_in_the_window_and_go_with_what_is_cleared():
    message = ChatMessage(role="tool", tool_call_id="c1", content="12345678", files=(SHOT,))
    session = Session(agent="a", model="m", messages=(message,), cleared=(0,))

    assert message_tokens(message) == 2 + IMAGE_TOKENS
    assert (shown(session)[0].content, shown(session)[0].files) == (CLEARED, ())
    kept = Session(agent="a", model="m", messages=(message,), compaction=Compaction(summary="s", kept_from=0))
    assert shown(kept)[-1].files == (SHOT,)
