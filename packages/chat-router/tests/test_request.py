"""The information about a request that strategies receive."""

from __future__ import annotations

from chat_core import Messages
from chat_core.messages import Text, Turn
from router_helpers import model, request


def test_the_question_is_the_last_message_of_the_user() -> None:
    messages = Messages.from_user("first", "and more")
    assert request(model("a"), messages=messages).question == "first\nand more"
    messages.append("model", Turn([Text("answer")]))
    messages.append("user", Turn([Text("correct this")], by="engine"))
    assert request(model("a"), messages=messages).question == "first\nand more"
    assert request(model("a"), messages=Messages()).question == ""


def test_the_question_of_an_embeddings_request_is_its_texts() -> None:
    assert request(model("a"), messages=Messages(), texts=("one", "two")).question == "one\ntwo"
