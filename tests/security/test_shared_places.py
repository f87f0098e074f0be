"""Names in places that several users share: a run root, /tmp and caches."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobc.runtime.engines.host_commands import LAST_CODE
from jobc.trainer.parallel.stale_build_locks import extension_build_allowed

from .users import NEIGHBOUR, SYSTEM_PATH, SharedJob, as_neighbour

PROGRAM = "import os; print('trained', os.environ.get('TORCHINDUCTOR_CACHE_DIR'))\n"


def contents(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.lstat().st_mtime_ns) for path in (folder, *folder.rglob("*")))


# ---- runs of another user


def test_clean_spares_and_reports_the_runs_of_another_user(both_users: SharedJob) -> None:
    done = both_users.call("clean", "--keep", "0", "--yes")
    assert done.code == 0 and f"run theirs is kept: it belongs to uid {NEIGHBOUR}" in done.output
    assert both_users.names() == ["theirs"]


def test_runs_of_another_user_do_not_count_as_the_newest_that_stay(both_users: SharedJob) -> None:
    assert both_users.call("clean", "--keep", "1", "--yes").code == 0
    assert both_users.names() == ["mine", "theirs"]


def test_clean_spares_what_another_user_was_removing(both_users: SharedJob) -> None:
    (both_users.runs / "theirs").rename(both_users.runs / ".theirs.removed")
    assert both_users.call("clean", "--keep", "1", "--yes").code == 0
    assert both_users.names() == [".theirs.removed", "mine"]


@pytest.mark.parametrize("verb", ["status", "logs"])
def test_without_an_id_only_runs_of_this_user_are_chosen(both_users: SharedJob, verb: str) -> None:
    theirs = both_users.runs / "theirs"
    (theirs / "logs/node_00.log").write_text("text of the neighbour\n")
    done = both_users.call(verb)
    assert done.code == 0 and "theirs" not in done.output and "text of the neighbour" not in done.output


@pytest.mark.parametrize("verb", ["status", "logs"])
def test_an_explicit_id_reads_the_run_of_another_user(both_users: SharedJob, verb: str) -> None:
    done = both_users.call(verb, "--run", "theirs")
    assert done.code == 0 and ("theirs" in done.output or "trained" in done.output), done.output


def test_reading_the_run_of_another_user_writes_nothing_there(both_users: SharedJob) -> None:
    before = contents(both_users.runs / "theirs")
    for words in (("status", "--run", "theirs"), ("status", "--all"), ("logs", "--run", "theirs")):
        assert both_users.call(*words).code == 0
    assert contents(both_users.runs / "theirs") == before


def test_a_user_without_a_run_gets_the_name_of_the_owner(both_users: SharedJob) -> None:
    assert both_users.call("clean", "--keep", "0", "--yes").code == 0
    done = both_users.call("status")
    assert done.code == 1 and f"the newest run belongs to uid {NEIGHBOUR}" in done.output


def test_status_of_all_runs_names_other_owners(both_users: SharedJob) -> None:
    lines = dict(line.split(None, 1) for line in both_users.call("status", "--all").output.splitlines())
    assert lines["mine"] == "done (exit 0)" and lines["theirs"].startswith(f"belongs to uid {NEIGHBOUR}")


@pytest.mark.parametrize(
    "words",
    [("submit", "--resume", "theirs"), ("stop", "--run", "theirs"), ("shell", "--run", "theirs", "--", "true")],
)
def test_starting_stopping_and_entering_the_run_of_another_user_is_refused(
    both_users: SharedJob, words: tuple[str]
) -> None:
    before = contents(both_users.runs / "theirs")
    done = both_users.call(*words)
    assert done.code == 1 and f"run theirs belongs to uid {NEIGHBOUR}" in done.output
    assert contents(both_users.runs / "theirs") == before


def test_submit_in_the_run_of_another_user_is_refused(both_users: SharedJob) -> None:
    program = both_users.runs / "theirs/artifact/0/jobctl"
    done = both_users.call(str(program), "submit")
    assert done.code == 1 and f"run theirs belongs to uid {NEIGHBOUR}" in done.output


def test_a_checkpoint_of_another_user_can_be_the_start_of_a_new_run(both_users: SharedJob) -> None:
    assert both_users.call("submit", "--fork", "theirs", "--run-id", "forked").code == 0


def test_a_fifo_in_the_run_of_another_user_stops_no_clean(both_users: SharedJob) -> None:
    (both_users.runs / "fifo/state").mkdir(parents=True)
    os.mkfifo(both_users.runs / "fifo/state/run")
    assert both_users.call("clean", "--keep", "0", "--yes").code == 0
    assert "mine" not in both_users.names()


# ---- /tmp and caches


def plant(path: Path, kind: str, target: Path) -> None:
    """Create what a neighbour might put in the place of this user's file or folder."""
    match kind:
        case "file":
            path.touch()
        case "folder":
            path.mkdir()
        case "open folder":
            path.mkdir()
            path.chmod(0o777)
        case "fifo":
            os.mkfifo(path)
        case "link":
            path.symlink_to(target)
    os.chown(path, NEIGHBOUR, NEIGHBOUR, follow_symlinks=False)


PLANTED = ["file", "folder", "open folder", "fifo", "link"]


@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize("name", ["jobc-0", "jobc-ports-0", "jobc-0/ports"])
def test_what_another_user_made_in_the_temporary_folder_stops_no_start(
    shared_job: SharedJob, name: str, kind: str
) -> None:
    victim = shared_job.folder / "victim"
    victim.mkdir()
    path = shared_job.folder / "tmp" / name
    if path.parent != shared_job.folder / "tmp":
        plant(path.parent, "folder", victim)
    plant(path, kind, victim)
    done = shared_job.call("submit", "--run-id", "a", XDG_RUNTIME_DIR="/nonexistent")
    assert done.code == 0 and "trained" in done.output, done.output
    assert list(victim.iterdir()) == []


def test_the_ports_of_a_user_cannot_be_locked_by_another(shared_job: SharedJob) -> None:
    assert shared_job.call("submit", "--run-id", "a").code == 0
    folder = shared_job.folder / "tmp/jobc-0/ports"
    assert [path.stat().st_mode & 0o777 for path in (folder.parent, folder)] == [0o700, 0o700]
    locked = subprocess.run(
        as_neighbour("flock", "--nonblock", str(folder / "lock"), "true"), check=False, capture_output=True
    )
    assert locked.returncode != 0


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_temporary_folder_that_others_can_change_is_not_used(shared_job: SharedJob, mode: int) -> None:
    os.chown(shared_job.folder / "tmp", 0, NEIGHBOUR)
    (shared_job.folder / "tmp").chmod(mode)
    assert shared_job.call("submit", "--run-id", "a").code == 0
    assert list((shared_job.folder / "tmp").iterdir()) == []


@pytest.mark.parametrize("kind", ["folder", "open folder", "link"])
def test_a_planted_default_cache_of_compiled_kernels_is_not_used(shared_job: SharedJob, kind: str) -> None:
    plant(shared_job.folder / "tmp/torchinductor_root", kind, shared_job.folder)
    done = shared_job.call("submit", "--run-id", "a")
    assert done.code == 0 and f"trained {shared_job.folder}/tmp/jobc-0/inductor" in done.output


def test_a_cache_of_compiled_kernels_below_a_folder_of_another_user_is_not_used(shared_job: SharedJob) -> None:
    plant(shared_job.folder / "tmp/project", "open folder", shared_job.folder)
    shared_job.compile(f"caches.compiled={shared_job.folder}/tmp/project/cache-$UID")
    done = shared_job.call("submit", "--run-id", "a")
    assert done.code == 0 and f"trained {shared_job.folder}/tmp/jobc-0/caches/inductor" in done.output
    assert "other users can change caches.compiled=" in done.output


def test_preflight_and_smoke_leave_the_files_of_another_user(both_users: SharedJob) -> None:
    before = contents(both_users.runs / "theirs")
    both_users.call("preflight")
    assert contents(both_users.runs / "theirs") == before
    assert not list(both_users.folder.rglob(".jobc-probe-*"))


@pytest.mark.parametrize("kind", PLANTED)
def test_a_build_lock_of_another_user_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    plant(tmp_path / ".jobc_lock.0", kind, tmp_path / "victim")
    begun = time.monotonic()
    with extension_build_allowed(tmp_path):
        pass
    assert time.monotonic() - begun < 5 and not (tmp_path / "victim").exists()


def test_only_its_owner_can_open_a_build_lock(tmp_path: Path) -> None:
    with extension_build_allowed(tmp_path):
        assert (tmp_path / ".jobc_lock.0").stat().st_mode & 0o777 == 0o600


# ---- storage that changes owners


SQUASHED = 65534  # nobody, to whom NFS with root_squash gives what root makes


SQUASHING = f"""
import os, runpy, sys
fstat = os.fstat
def squashed(descriptor):
    found = fstat(descriptor)
    is_probe = b".jobc-owner." in os.fsencode(os.readlink(f"/proc/self/fd/{{descriptor}}"))
    return os.stat_result((*found[:4], {SQUASHED}, {SQUASHED}, *found[6:10])) if is_probe else found
os.fstat = squashed
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def squashed(both_users: SharedJob) -> SharedJob:
    """Create root's run on storage that gives root's files to nobody: `stat` reports this for root's new files."""
    subprocess.run(["chown", "-R", f"{SQUASHED}:{SQUASHED}", both_users.runs / "mine"], check=True)
    stat = both_users.folder / "bin" / "stat"
    stat.parent.mkdir()
    stat.write_text(
        f'#!/bin/bash\nif [[ ${{!#}} == /dev/fd/3 ]]; then echo {SQUASHED}; else exec /usr/bin/stat "$@"; fi\n'
    )
    stat.chmod(0o755)
    python = stat.with_name("python3")  # the same of what jobctl asks the operating system
    python.write_text(f"#!/bin/bash\nexec {sys.executable} -I -S -c '{SQUASHING}' \"$@\"\n")
    python.chmod(0o755)
    return both_users


def path_of(job: SharedJob) -> str:
    return f"{job.folder}/bin:{SYSTEM_PATH}"


def test_runs_on_storage_that_changes_owners_are_those_of_this_user(squashed: SharedJob) -> None:
    path = path_of(squashed)
    done = squashed.call("status", PATH=path)
    assert done.code == 0 and "mine" in done.output, done.output
    assert squashed.call("clean", "--keep", "0", "--yes", PATH=path).code == 0
    assert squashed.names() == ["theirs"]


def test_runs_of_nobody_are_not_those_of_a_user_whose_files_keep_their_owner(squashed: SharedJob) -> None:
    assert squashed.call("clean", "--keep", "0", "--yes").code == 0
    assert squashed.names() == ["mine", "theirs"]


def test_asking_who_owns_new_files_leaves_none(squashed: SharedJob) -> None:
    for words in (("status",), ("status", "--all"), ("clean", "--keep", "9")):
        assert squashed.call(*words, PATH=path_of(squashed)).code in (0, 1)
    assert squashed.names() == ["mine", "theirs"]


def test_a_run_of_a_neighbour_is_not_removed_where_the_root_cannot_be_written(both_users: SharedJob) -> None:
    both_users.runs.chmod(0o555)
    done = both_users.call_as_neighbour("stop", "--run", "mine")
    assert done.code == 1 and "run mine belongs to root" in done.output


# ---- other backends


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("stop", "--run", "theirs"), 1, f"run theirs belongs to uid {NEIGHBOUR}"),
        (("submit", "--resume", "theirs"), 1, f"run theirs belongs to uid {NEIGHBOUR}"),
        (("clean", "--keep", "0", "--yes"), 0, f"run theirs is kept: it belongs to uid {NEIGHBOUR}"),
        (("status", "--all"), 0, f"belongs to uid {NEIGHBOUR}"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_run_of_another_user_is_left_alone_on_slurm(
    both_users: SharedJob, words: tuple[str, ...], code: int, text: str
) -> None:
    both_users.compile("backend=slurm", "time=1h")
    before = contents(both_users.runs / "theirs")
    done = both_users.call(str(both_users.artifact.parent / "slurm/jobctl"), *words)
    assert done.code == code and text in done.output, done.output
    assert contents(both_users.runs / "theirs") == before


def test_a_host_links_no_code_of_the_run_of_another_user(tmp_path: Path) -> None:
    for name in ("mine", "theirs"):
        for path in ("code", "state"):
            (tmp_path / name / path).mkdir(parents=True)
        (tmp_path / name / "state/run").touch()
    os.utime(tmp_path / "mine/state/run", (1, 1))
    subprocess.run(["chown", "-R", str(NEIGHBOUR), tmp_path / "theirs"], check=True)
    said = subprocess.check_output(["sh", "-c", LAST_CODE, str(tmp_path / "new")], text=True)
    assert said == f"code {tmp_path}/mine/code\n"
