"""Words that people type, and what is found by them."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection

from corral.store.engine import search
from corral.store.schema_coordination import messages

SAID = (
    "the login page is slow",
    "the reset page works",
    "login and reset are one page",
    "nothing OR everything",
    "a page about logins",
    "see src/api/users.py, foo_bar and 1e5abc of zebra@example.test",
    "Größe prüfen — “naïve” ガード हिन्दी",
)


def say(conn: Connection, seq: int, body: str) -> None:
    row: dict[str, Any] = dict.fromkeys(("thread_id", "sender_name", "kind", "created_at"), "")
    row |= {"seq": seq, "message_id": str(seq), "subject": "s", "body": body, "data": {}, "attachments": []}
    conn.execute(messages.insert().values(**row, importance="normal", ack_required=False))


@pytest.fixture
def conn(any_database: Connection) -> Connection:
    for seq, body in enumerate(SAID, 1):
        say(any_database, seq, body)
    search.learn(any_database, "messages")
    return any_database


@pytest.mark.parametrize(
    ("words", "numbers"),
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
        ("page AND NOT reset", {1, 5}),
        ("login OR reset page", {1, 2, 3}),
        ("page NOT slow reset", {1, 2, 3, 5}),
        ("slow OR works NOT page", {1}),
        ("log*", {1, 3, 5}),
        ("users", {6}),
        ("src/api/users.py", {6}),
        ("api/", {6}),
        ("example", {6}),
        ("foo", {6}),
        ("foo_ba", {6}),
        ("bar_foo", set()),
        ("oo", set()),
        ("1e5ab", {6}),
        ("grÖßE", {7}),
        ("große PRUFEN", {7}),
        ("“naive”", {7}),
        ("—prüfen", {7}),
        ("ガー", {7}),
        ("カード", set()),
        ("हिन्दी", {7}),
        ("'login' \\page\\", {1, 3}),
        ("login & page | !reset <-> x:*", set()),
        ("NEAR(login page)", set()),
        ("%s %(match)s :match $1 ?", set()),
        ("\0 \ud800 🎉 ½ _ ''", set()),
        ("login \0\ud800page", {1, 3}),
        ("(" * 2000 + '"' * 2001, set()),
        ("NOT " * 1000 + "login", set()),
        ("login " * 1000, {1, 3}),
        ("x" * 100_000, set()),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_words_find_what_they_say_and_no_text_is_a_syntax_error(
    conn: Connection, words: str, numbers: set[int]
) -> None:
    assert set(search.matching(conn, "messages", words)) == numbers


def test_the_best_come_first_or_the_newest_and_no_more_than_were_asked_for(conn: Connection) -> None:
    say(conn, 11, "one lemur")
    say(conn, 12, f"a lemur {'and whatever else there is ' * 9}")
    say(conn, 13, f"lemurs {'and whatever else there is ' * 9}")
    search.learn(conn, "messages")
    assert search.matching(conn, "messages", "lemur") == [11, 13, 12]
    assert search.matching(conn, "messages", "lemur", newest=True) == [13, 12, 11]
    assert search.matching(conn, "messages", "lemur", 1) == [11]
    assert search.matching(conn, "messages", "lemur", 2, newest=True) == [13, 12]


def test_what_is_changed_or_gone_is_found_no_more(conn: Connection) -> None:
    conn.execute(messages.update().where(messages.c.seq == 1).values(body="entirely new"))
    conn.execute(messages.delete().where(messages.c.seq == 3))
    assert search.matching(conn, "messages", "login") == [5]
    assert search.matching(conn, "messages", "entirely") == [1]


def test_what_came_lately_is_learned_in_parts_and_nothing_twice_or_never(
    conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "AT_ONCE", 8)
    assert not search.count_unlearned(conn, "messages")
    last = 100 + search.AT_ONCE + 1
    for seq in range(101, last + 1):
        say(conn, seq, "okapi")
    conn.execute(messages.update().where(messages.c.seq == 102).values(body="tapir"))
    conn.execute(messages.delete().where(messages.c.seq == 103))
    learned = 0
    while search.count_unlearned(conn, "messages"):
        search.learn(conn, "messages")
        learned += 1
    if conn.dialect.name == "sqlite":
        assert learned == 1  # of nine, one was gone
        say(conn, last + 1, "okapi")
        assert search.count_unlearned(conn, "messages")
    wanted = {101, *range(104, last + 1)}
    assert set(search.matching(conn, "messages", "okapi", 1000, newest=True)) - {last + 1} == wanted
    assert search.matching(conn, "messages", "tapir") == [102]
    conn.execute(messages.delete().where(messages.c.seq == 102))
    assert search.matching(conn, "messages", "tapir") == []
