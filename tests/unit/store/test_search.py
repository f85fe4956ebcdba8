"""Words that people type, and what is found by them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, create_engine, text

from corral.store import schema, search
from corral.store.schema_coordination import messages

SAID = (
    "the login page is slow",
    "the reset page works",
    "login and reset are one page",
    "nothing OR everything",
    "a page about logins",
)


@pytest.fixture
def conn() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        schema.metadata.create_all(connection)
        search.create_indexes(connection)
        connection.execute(text("PRAGMA foreign_keys=OFF"))
        for seq, body in enumerate(SAID, 1):
            row = dict.fromkeys(("message_id", "thread_id", "sender_name", "kind", "subject", "created_at"), "")
            row |= {"seq": seq, "body": body, "message_id": str(seq), "data": "{}", "attachments": "[]"}
            row |= {"importance": "normal", "ack_required": False, "kind": "message", "subject": "s"}
            connection.execute(messages.insert().values(**row))
        yield connection
    engine.dispose()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("login page", {1, 3}),
        ("page login", {1, 3, 5}),
        ("log", {1, 3, 5}),
        ("page log", {1, 3, 5}),
        ("log page", set()),
        ('"login page"', {1}),
        ('"reset page" OR "login page"', {1, 2}),
        ("login OR reset", {1, 2, 3}),
        ("page NOT reset", {1, 5}),
        ("login AND reset", {3}),
        ("or everything", {4}),
        ("OR", set()),
        ("NOT login", {1, 3, 5}),
        ("login OR", {1, 3}),
        ("login OR OR reset", {1, 2, 3}),
        ('"', set()),
        ('"login', {1, 3, 5}),
        ("login* (page) subject:x -y ^", set()),
        ("", set()),
        ("' ; DROP TABLE messages --", set()),
    ],
)
def test_words_find_what_they_say_and_no_text_is_a_syntax_error(conn: Connection, words: str, found: set[int]) -> None:
    assert set(search.matching(conn, "messages", words)) == found
