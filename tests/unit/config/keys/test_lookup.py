"""The order of the places, and what a failing one does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from corral.config.keys.key_file import KeyFile
from corral.config.keys.keychain import API_KEY, NoKeychain
from corral.config.keys.lookup import ApiKey, Places, Source
from corral.core.errors import ApiKeyUnavailable, InvalidInput

PLACES = ("environment", "keychain", "encrypted_file", "dotenv")


def key_of(place: str) -> str:
    return f"sk-ant-api03-0123456789-of-the-{place}"


class StoredInMemory:
    """A keychain's answers."""

    def __init__(self, stored: str | None, error: Exception | None = None) -> None:
        self.found, self.error, self.asked = stored, error, 0

    def get(self) -> str | None:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.found


Having = Callable[..., Places]


@pytest.fixture
def having(tmp_path: Path) -> Having:
    """The places, of which those that are named have a key."""

    def make(*names: str, error: Exception | None = None, tracked: bool | None = False) -> Places:
        file, dotenv = KeyFile(tmp_path / "corral"), tmp_path / ".env"
        file.put(key_of("encrypted_file")) if "encrypted_file" in names else file.delete()
        dotenv.write_text(f"OTHER=1\nexport ANTHROPIC_API_KEY='{key_of('dotenv')}'\n" if "dotenv" in names else "A=b\n")
        environ = {"ANTHROPIC_API_KEY": key_of("environment") if "environment" in names else ""}
        keychain = StoredInMemory(key_of("keychain") if "keychain" in names else None, error)
        return Places(environ, keychain, file, dotenv, lambda _path: tracked)  # type: ignore[arg-type]

    return make


@pytest.mark.req("FR-CONFIG-004")
@pytest.mark.parametrize("first", range(len(PLACES)))
def test_the_first_place_that_has_a_key_wins(having: Having, first: int) -> None:
    places = having(*PLACES[first:])
    assert places.find() == ApiKey(key_of(PLACES[first]), Source(PLACES[first]))
    assert [lookup.key is not None for lookup in places.lookups()] == [number >= first for number in range(len(PLACES))]


@pytest.mark.req("FR-CONFIG-004")
def test_without_a_key_there_is_none_and_a_key_of_the_environment_asks_no_keychain(having: Having) -> None:
    assert having().find() is None
    assert having(error=NoKeychain()).find() is None
    places = having("environment")
    places.find()
    assert places.keychain.asked == 0  # type: ignore[attr-defined]


@pytest.mark.req("FR-CONFIG-004")
def test_a_keychain_that_fails_is_passed_over_only_where_it_was_given_no_key(having: Having) -> None:
    locked = ApiKeyUnavailable("The keychain is locked.")
    assert having("dotenv", error=locked).find() == ApiKey(key_of("dotenv"), Source.DOTENV)
    with pytest.raises(ApiKeyUnavailable, match="locked"):
        having(error=locked).find()
    places = having("dotenv", error=locked)
    places.file.point_to_keychain()
    with pytest.raises(ApiKeyUnavailable, match="locked"):
        places.find()


@pytest.mark.req("FR-CONFIG-004")
def test_a_tracked_dotenv_is_not_used_and_an_unignored_one_is_named(having: Having) -> None:
    with pytest.raises(ApiKeyUnavailable, match="tracked by git") as refused:
        having("dotenv", tracked=True).find()
    assert "git rm --cached .env" in refused.value.remedy
    (*_, lookup) = having("dotenv", tracked=None).lookups()
    assert lookup.key and "add .env to .gitignore" in lookup.note
    (*_, lookup) = having("dotenv").lookups()
    assert lookup.key and not lookup.note
    assert having(tracked=True).find() is None, "a tracked file without a key is nobody's business"


@pytest.mark.req("FR-CONFIG-004")
def test_a_dotenv_that_is_too_large_unreadable_or_no_file_gives_no_key(having: Having, tmp_path: Path) -> None:
    places, file = having("dotenv"), tmp_path / ".env"
    file.write_text(f"ANTHROPIC_API_KEY={key_of('dotenv')}\n" + "#" * 1_000_001)
    with pytest.raises(ApiKeyUnavailable, match="cannot be read"):
        places.find()
    file.unlink()
    assert places.find() is None
    file.mkdir()
    assert places.find() is None
    file.rmdir()
    file.write_text("ANTHROPIC_API_KEY=$HOME${ANTHROPIC_API_KEY}\n")
    key = places.find()
    assert key and key.value == "$HOME${ANTHROPIC_API_KEY}", "nothing is expanded"


@pytest.mark.req("FR-CONFIG-004")
def test_a_key_shows_four_characters_at_most_and_a_short_one_none() -> None:
    key = ApiKey(key_of("keychain"), Source.KEYCHAIN)
    assert key.ending == "hain" and key_of("keychain") not in repr(key) + str(key)
    assert ApiKey("short-key-12", Source.DOTENV).ending is None


@pytest.mark.req("FR-CONFIG-004")
@pytest.mark.parametrize(
    "text", ["", "short", "two words-0123456789", "line\nline-0123456789", "ümlaut-0123456", "k" * 1001]
)
def test_what_is_no_key_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        API_KEY.checked(text)
    assert not text or text not in str(refused.value.to_wire())
    assert API_KEY.checked("  sk-ant-0123456789\n") == "sk-ant-0123456789"
