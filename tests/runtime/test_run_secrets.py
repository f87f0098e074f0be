"""Saving secrets for the nodes of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobc.runtime.run_folder.run_secrets import save_secret, saved_secrets, secrets_folder_of_run
from jobc.runtime.system.failure import Failure


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("JOBC_SECRETS_ROOT", raising=False)
    monkeypatch.setenv("MINE", "value")
    return tmp_path / "runs/job/a"


def test_secrets_are_closed_to_others_and_replace_what_is_there(run: Path, tmp_path: Path) -> None:
    folder = secrets_folder_of_run(run)
    folder.mkdir(parents=True, mode=0o755)
    (tmp_path / "victim").write_text("text")
    (folder / "MINE").symlink_to(tmp_path / "victim")
    save_secret(run, "MINE")
    modes = [path.stat().st_mode & 0o777 for path in (folder.parent, folder, folder / "MINE")]
    assert modes == [0o700, 0o700, 0o600] and (folder / "MINE").read_text() == "value"
    assert (tmp_path / "victim").read_text() == "text"


def test_a_start_that_fails_leaves_none(run: Path) -> None:
    with pytest.raises(Failure, match="variable OTHER is not set") as unset, saved_secrets(run, ["MINE", "OTHER"]):
        pass
    assert unset.value.code == 65 and not secrets_folder_of_run(run).exists()
    with pytest.raises(KeyboardInterrupt), saved_secrets(run, ["MINE"]):
        raise KeyboardInterrupt
    assert not secrets_folder_of_run(run).exists()
    with saved_secrets(run, ["MINE"]):
        pass
    assert (secrets_folder_of_run(run) / "MINE").exists()


def test_a_folder_behind_a_link_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / ".jobc").mkdir()
    (tmp_path / ".jobc/secrets").symlink_to(tmp_path / "theirs")
    with pytest.raises(Failure, match="is not a private folder of this user"), saved_secrets(run, ["MINE"]):
        pass
    assert not list((tmp_path / "theirs").rglob("MINE"))
