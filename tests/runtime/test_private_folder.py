"""Folders and secrets that only this user can change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jobc.runtime.run_folder.run_secrets import save_secret, secrets_folder_of_run
from jobc.runtime.system.failure import Failure
from jobc.runtime.system.private_folder import is_replaceable_only_by_user, make_private, private_folder

OTHER = 12345  # a user ID without a name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("JOBC_SECRETS_ROOT", raising=False)
    return tmp_path


@pytest.mark.parametrize(("mode", "safe"), [(0o755, True), (0o700, True), (0o777, False), (0o1777, True)])
def test_a_folder_that_others_can_write_is_safe_only_if_sticky(folder: Path, mode: int, safe: bool) -> None:
    (folder / "a").mkdir()
    (folder / "a").chmod(mode)
    (folder / "a/b").mkdir()
    assert is_replaceable_only_by_user(folder / "a") is safe and is_replaceable_only_by_user(folder / "a/b") is safe


def test_a_folder_that_a_group_can_write_is_not_safe(folder: Path) -> None:
    os.chown(folder, -1, OTHER)
    folder.chmod(0o775)
    assert not is_replaceable_only_by_user(folder)


def test_a_folder_of_another_user_is_not_safe(folder: Path) -> None:
    os.chown(folder, OTHER, -1)
    assert not is_replaceable_only_by_user(folder) and not make_private(folder)


def test_a_folder_that_is_not_there_is_not_safe(folder: Path) -> None:
    (folder / "loop").symlink_to("loop")
    assert not is_replaceable_only_by_user(folder / "none") and not is_replaceable_only_by_user(folder / "loop")


def test_the_private_folder_is_always_the_same(folder: Path) -> None:
    first = private_folder("smoke")
    assert first == private_folder("smoke") == folder / f"jobc-{os.geteuid()}/smoke"
    assert first.stat().st_mode & 0o777 == 0o700


def test_a_private_folder_that_another_user_has_taken_is_not_used(folder: Path) -> None:
    taken = folder / f"jobc-{os.geteuid()}"
    taken.mkdir()
    os.chown(taken, OTHER, -1)
    assert private_folder("smoke").parent != taken


def test_a_link_is_no_private_folder(folder: Path) -> None:
    (folder / "to").mkdir()
    (folder / "link").symlink_to("to")
    assert not make_private(folder / "link")


def test_a_secret_is_saved_for_this_user_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "one")
    save_secret(folder / "a", "TOKEN")
    monkeypatch.setenv("TOKEN", "two")
    save_secret(folder / "a", "TOKEN")
    file = secrets_folder_of_run(folder / "a") / "TOKEN"
    assert file.read_text() == "two" and file.stat().st_mode & 0o777 == 0o600


def test_a_secret_that_is_not_set_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKEN", raising=False)
    with pytest.raises(Failure, match="the environment variable TOKEN is not set"):
        save_secret(folder / "a", "TOKEN")


def test_no_secret_is_saved_in_a_folder_of_another_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "one")
    secrets_folder_of_run(folder / "a").mkdir(parents=True)
    os.chown(secrets_folder_of_run(folder / "a"), OTHER, -1)
    with pytest.raises(Failure, match="is not a private folder of this user"):
        save_secret(folder / "a", "TOKEN")
    assert not list(secrets_folder_of_run(folder / "a").iterdir())
