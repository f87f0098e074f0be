"""Secrets of two runs with the same ID, and files that another user may have put where secrets are stored."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from .users import NEIGHBOUR, SharedJob

PROGRAM = 'import os; print("got", os.environ["TOKEN"])\n'
COMPILE = ("backend=ssh", "hosts=[localhost]", "secrets.TOKEN=env:MY_TOKEN")


@pytest.fixture
def job(shared_job: SharedJob) -> SharedJob:
    # the compiled artifact of backend ssh lies beside where that of backend local would
    (shared_job.artifact.parent / "ssh").rename(shared_job.artifact)
    file = shared_job.artifact / ".jobc/job.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "place": "demo/local"}))
    return shared_job


def secrets(job: SharedJob) -> Path:
    return job.home() / ".jobc/secrets"


def prepare(job: SharedJob, root: Path, value: str) -> Path:
    done = job.call("submit", "--only-prepare", "--run-id", "a", JOBC_RUN_ROOT=str(root), MY_TOKEN=value)
    assert done.code == 0, done.output
    return root / "demo/a"


def start(job: SharedJob, run: Path) -> str:
    return job.call(str(run / "artifact/0/launch.sh"), "0").output


def test_two_runs_of_one_id_have_their_own_secrets(job: SharedJob) -> None:
    first, second = (prepare(job, job.folder / root, f"value of {root}") for root in ("one", "two"))
    assert "got value of one" in start(job, first)
    assert job.call("clean", "--keep", "0", "--yes", JOBC_RUN_ROOT=str(first.parents[1])).code == 0
    assert not first.exists() and len(list(secrets(job).iterdir())) == 1
    assert "got value of two" in start(job, second)


def test_two_volumes_at_one_path_have_their_own_secrets(job: SharedJob) -> None:
    volume, others = job.folder / "one", [job.folder / "first", job.folder / "second"]
    for other in others:
        prepare(job, volume, f"value of {other.name}")
        volume.rename(other)
    for other in others:
        other.rename(volume)
        assert f"got value of {other.name}\n" in start(job, volume / "demo/a")
        assert job.call("clean", "--keep", "0", "--yes", JOBC_RUN_ROOT=str(volume)).code == 0
        volume.rename(other)
    assert not list(secrets(job).iterdir())


def test_a_root_behind_a_link_is_the_same_root(job: SharedJob) -> None:
    (job.folder / "link").symlink_to(job.folder / "one")
    (job.folder / "one").mkdir()
    run = prepare(job, job.folder / "link", "value")
    assert "got value" in start(job, run)
    assert job.call("clean", "--keep", "0", "--yes", JOBC_RUN_ROOT=str(job.folder / "one")).code == 0
    assert not run.exists() and not list(secrets(job).iterdir())


def test_folders_and_files_of_secrets_are_closed_to_others(job: SharedJob) -> None:
    secrets(job).mkdir(parents=True, mode=0o755)
    prepare(job, job.folder / "one", "value")
    (folder,) = secrets(job).iterdir()
    modes = [path.stat().st_mode & 0o777 for path in (secrets(job), folder, folder / "MY_TOKEN")]
    assert modes == [0o700, 0o700, 0o600]


@pytest.mark.parametrize("is_link", [True, False])
def test_a_place_for_secrets_that_is_not_the_users_is_refused(job: SharedJob, is_link: bool) -> None:
    theirs = job.home("neighbour") / "kept"
    theirs.mkdir()
    os.chown(theirs, NEIGHBOUR, NEIGHBOUR)
    secrets(job).parent.mkdir()
    if is_link:
        secrets(job).symlink_to(theirs)
    else:
        theirs.rename(secrets(job))
    done = job.call("submit", "--only-prepare", "--run-id", "a", MY_TOKEN="value")
    assert done.code == 1 and "is not a private folder of this user" in done.output
    assert not any(path.is_file() for folder in (theirs, secrets(job)) for path in folder.rglob("*"))
    assert job.names() == []


def test_a_link_in_the_folder_of_secrets_is_replaced_and_not_followed(job: SharedJob) -> None:
    prepare(job, job.folder / "one", "value")
    (folder,) = secrets(job).iterdir()
    victim = job.folder / "victim"
    victim.write_text("text of the victim")
    (folder / "MY_TOKEN").unlink()
    (folder / "MY_TOKEN").symlink_to(victim)
    run = job.folder / "one/demo/a"
    assert "text of the victim" not in start(job, run)
    done = job.call("submit", "--only-prepare", "--resume", "a", JOBC_RUN_ROOT=str(job.folder / "one"), MY_TOKEN="new")
    assert done.code == 0 and victim.read_text() == "text of the victim"
    assert (folder / "MY_TOKEN").read_text() == "new"
