"""The encrypted file: nothing readable, nobody else, and no silent failure."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from corral.config.keys.key_file import KeyFile, config_folder
from corral.core.errors import ApiKeyUnavailable

KEY = "sk-ant-api03-0123456789abcdefghij-WXYZ"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "config" / "corral"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.req("NFR-SEC-001")
def test_what_is_stored_comes_back_and_stands_nowhere_as_it_is(folder: Path) -> None:
    file = KeyFile(folder)
    assert file.get() is None
    file.put(KEY)
    assert KeyFile(folder).get() == KEY
    assert sorted(path.name for path in folder.iterdir()) == ["api-key.json", "api-key.secret"]
    assert mode(folder) == 0o700 and {mode(path) for path in folder.iterdir()} == {0o600}
    for path in folder.iterdir():
        data = path.read_bytes()
        assert not any(KEY[start : start + 6].encode() in data for start in range(len(KEY) - 6)), path
    assert json.loads(file.path.read_text())["cipher"] == "AES-256-GCM"


@pytest.mark.req("NFR-SEC-001")
def test_storing_again_uses_a_nonce_of_its_own(folder: Path) -> None:
    file = KeyFile(folder)
    file.put(KEY)
    first = json.loads(file.path.read_text())
    file.put(KEY)
    second = json.loads(file.path.read_text())
    assert first["nonce"] != second["nonce"] and first["ciphertext"] != second["ciphertext"]
    assert file.get() == KEY


@pytest.mark.req("NFR-SEC-001")
def test_a_changed_or_lost_file_is_an_error_and_no_other_key(folder: Path) -> None:
    file = KeyFile(folder)
    file.put(KEY)
    stored = json.loads(file.path.read_text())
    contents: list[object] = [{**stored, "ciphertext": stored["nonce"]}, {**stored, "nonce": "?"}, []]
    for damaged in contents:
        file.path.write_text(json.dumps(damaged))
        with pytest.raises(ApiKeyUnavailable, match="cannot be decrypted") as refused:
            file.get()
        assert "corral config set-key" in refused.value.remedy
    file.path.write_text(json.dumps(stored))
    assert file.get() == KEY
    (folder / "api-key.secret").unlink()
    with pytest.raises(ApiKeyUnavailable, match="cannot be decrypted"):
        file.get()


@pytest.mark.req("NFR-SEC-001")
@pytest.mark.parametrize("name", ["api-key.json", "api-key.secret"])
def test_a_file_that_others_can_read_or_a_link_is_not_used(folder: Path, name: str) -> None:
    file, path = KeyFile(folder), folder / name
    file.put(KEY)
    path.chmod(0o640)
    with pytest.raises(ApiKeyUnavailable, match="not a private file") as refused:
        file.get()
    assert f"chmod 600 {path}" in refused.value.remedy and "0640" in refused.value.cause
    path.chmod(0o600)
    assert file.get() == KEY
    path.rename(folder / "elsewhere")
    path.symlink_to(folder / "elsewhere")
    with pytest.raises(ApiKeyUnavailable):
        file.get()


@pytest.mark.req("NFR-SEC-001")
def test_a_folder_that_was_open_is_closed_and_one_that_cannot_be_made_is_named(folder: Path) -> None:
    folder.mkdir(parents=True, mode=0o755)
    KeyFile(folder).put(KEY)
    assert mode(folder) == 0o700
    in_the_way = folder.parent / "file"
    in_the_way.write_text("")
    with pytest.raises(ApiKeyUnavailable, match="cannot be stored") as refused:
        KeyFile(in_the_way / "corral").put(KEY)
    assert KEY not in str(refused.value.to_wire())


@pytest.mark.req("NFR-SEC-001")
def test_many_that_store_at_once_leave_one_key_that_can_be_read(folder: Path) -> None:
    keys = [f"{KEY}-{number}" for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: KeyFile(folder).put(key), keys))
    assert KeyFile(folder).get() in keys
    assert sorted(path.name for path in folder.iterdir()) == ["api-key.json", "api-key.secret"]


@pytest.mark.req("NFR-SEC-001")
def test_removing_leaves_nothing(folder: Path) -> None:
    file = KeyFile(folder)
    assert not file.delete()
    file.put(KEY)
    assert file.delete() and file.get() is None and list(folder.iterdir()) == []
    file.put(KEY)
    file.point_to_keychain()
    assert file.is_in_keychain() and file.get() is None and not file.delete() and not file.is_in_keychain()


@pytest.mark.req("NFR-SEC-001")
def test_the_folder_is_the_users_configuration_folder(tmp_path: Path) -> None:
    assert config_folder({}, tmp_path) == tmp_path / ".config" / "corral"
    assert config_folder({"XDG_CONFIG_HOME": "/etc/mine"}, tmp_path) == Path("/etc/mine/corral")
    assert config_folder({"XDG_CONFIG_HOME": "relative"}, tmp_path) == tmp_path / ".config" / "corral"
