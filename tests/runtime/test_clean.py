"""clean: which old runs are removed, how, and which are always kept.

Only jobctl clean at a terminal, and stand-ins for an engine's clients, are started.
"""

from __future__ import annotations

import os
import pty
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from jobc.backends.skypilot.engine.skypilot_engine import SkypilotEngine
from jobc.runtime.engines.artifact_location import Place
from jobc.runtime.engines.engine import Answer, Engine, Job
from jobc.runtime.run_folder import removal
from jobc.runtime.run_folder.run import Run
from jobc.runtime.run_folder.run_secrets import secrets_folder_of_run
from jobc.runtime.verbs import clean

from .old_runs import FOUR, Old, size_of
from .sample_runs import RECORD, kubernetes, make_job, make_run, node, slurm


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Old:
    return Old(tmp_path, monkeypatch, capsys)


# ---- which runs go


def test_it_lists_and_removes_nothing_until_told(old: Old) -> None:
    code, output = old.clean("--keep", "2")
    assert code == 0 and old.names() == [*FOUR], output
    line = r" +\d+s old +\d+K  done \(exit 0\)\n"
    assert re.match(rf"b{line}a{line}total [\d.]+[KM]\n", output), output
    assert output.endswith("nothing was removed; --yes removes these\n")
    code, output = old.clean("--keep", "2", "--yes")
    assert code == 0 and output.endswith("removed b\nremoved a\n") and old.names() == ["c", "d"]
    assert old.clean("--keep", "2", "--yes") == (0, "nothing to remove\n")


def test_the_spec_says_how_many_stay(old: Old) -> None:
    old.set(keep_runs=1)
    assert old.clean("--keep", "03", "--yes")[0] == 0 and old.names() == ["b", "c", "d"]
    assert old.clean("--yes")[0] == 0 and old.names() == ["d"]


def test_how_many_stay_must_be_said(old: Old) -> None:
    jobctl = old.artifact / "jobctl"
    code, output = old.clean("--yes")
    assert code == 2 and output.startswith(
        f"error: the number of runs to keep is not set\n  hint: {jobctl} clean --keep 5, or keep_runs=5"
    )
    assert old.clean("--keep", "-1", "--yes") == (2, "error: --keep takes a number, not -1\n")
    assert old.clean("--keep") == (2, f"error: --keep needs a value\n  hint: {jobctl} clean --help\n")
    assert old.clean("--kept", "1") == (2, f"error: unknown option: --kept 1\n  hint: {jobctl} clean --help\n")
    assert old.names() == [*FOUR]


@pytest.mark.parametrize(("answer", "left"), [(b"y\n", ["a", "d"]), (b"\n", [*FOUR])])
def test_at_a_terminal_it_asks_and_then_spares_a_run_that_was_started_again(
    old: Old, job: Callable[..., Any], answer: bytes, left: list[str]
) -> None:
    demo = job()
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [demo.artifact / "jobctl", "clean", "--keep", "1"],
        env=demo.environment(), stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    said = b""
    while not said.endswith(b"remove these permanently? [y/N] "):
        said += os.read(master, 1000)
    (old.runs / "a/state/node_1").write_text(
        node()
    )  # of two digits the fixture would end the process, which is this one
    os.write(master, answer)
    assert process.wait(60) == 0 and old.names() == left
    said = os.read(master, 10_000)
    assert (b"run a is kept: it was started again\r\n" in said) == (b"removed b" in said) == (answer == b"y\n")
    os.close(master)


def test_a_live_run_stays(old: Old) -> None:
    old.add("live", ended="", exit="")
    old.add("new", attempt=7)
    code, output = old.clean("--keep", "0", "--yes")
    assert code == 0 and "run live is kept: it is live\n" in output
    assert "run new is kept: attempt 0 is being started, or was never started\n" in output
    assert old.names() == ["live", "new"]
    (old.runs / "new/control").mkdir()
    (old.runs / "new/control/STOP").touch()
    assert old.clean("--keep", "0", "--yes")[0] == 0 and old.names() == ["live"]


def test_a_run_whose_nodes_may_live_elsewhere_stays(old: Old) -> None:
    away = {"host": "another-host", "ended": "", "exit": ""}
    for name in ("quiet", "silent"):
        old.add(name, **away)
    os.utime(old.runs / "silent/state/node_00", (1, 1))  # it may have lost its link only
    code, output = old.clean("--keep", "0", "--yes")
    assert code == 0 and "run quiet is kept: it is live, node 00 on another-host\n" in output
    assert (
        "run silent is kept: node 00 on another-host has not reported that it ended, and may still be running" in output
    )
    assert old.names() == ["quiet", "silent"]


@pytest.mark.parametrize(("age_s", "left"), [(3600, ["r"]), (100_000, [])])
def test_a_run_of_another_boot_goes_after_a_day_of_silence(old: Old, age_s: float, left: list[str]) -> None:
    shutil.rmtree(old.runs)
    run = old.add("r", boot="another", ended="", exit="")
    os.utime(run.path / "state/node_00", (time.time() - age_s,) * 2)
    output = old.clean("--keep", "0", "--yes")[1]
    assert old.names() == left
    assert ("node 00 on another machine named" in output) == bool(left)


def test_two_state_files_of_one_node_are_both_believed(old: Old) -> None:
    (old.runs / "a/state/node_0").write_text(node(attempt=0))
    assert "run a is kept: it is live\n" in old.clean("--keep", "0", "--yes")[1] and old.names() == ["a"]


def test_what_is_no_run_of_this_job_stays(old: Old, tmp_path: Path) -> None:
    elsewhere = (old.runs / "a").rename(tmp_path / "elsewhere")
    (old.runs / "a").symlink_to(elsewhere)
    (old.runs / "mine/artifact").mkdir(parents=True)
    (old.runs / "b/state/run").write_text("job=another\ncreated=0\ninit_from=\n")
    (old.runs / "c/out").symlink_to(tmp_path)
    assert old.clean("--keep", "0", "--yes")[0] == 0
    assert old.names() == ["a", "b", "mine"] and (elsewhere / "state/run").exists()
    assert (old.artifact / ".jobc/job.json").exists()  # below tmp_path, to which a removed run had a link


@pytest.mark.parametrize(("keep", "left"), [("1", ["a", "e"]), ("0", [])])
def test_a_run_that_another_one_began_from_stays_while_that_stays(old: Old, keep: str, left: list[str]) -> None:
    old.add("e", init_from=str(old.runs / "a"))
    code, output = old.clean("--keep", keep, "--yes")
    assert code == 0 and old.names() == left
    assert ("run a is kept: another run started from its checkpoint\n" in output) == bool(left)


def test_the_run_that_the_artifact_lies_in_stays(old: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(old.artifact / ".jobc", old.runs / "a/artifact/0/.jobc")
    monkeypatch.setattr(sys, "argv", [str(old.runs / "a/artifact/0/jobctl")])
    assert old.clean("--keep", "0", "--yes")[1].startswith("run a is kept: this jobctl belongs to that run\n")
    assert old.names() == ["a"]


# ---- how it removes them


def test_what_a_killed_clean_left_is_removed_by_the_next(old: Old) -> None:
    (old.runs / "a").rename(old.runs / ".a.removed")
    (old.runs / ".not a run.removed").mkdir()
    old.add("a", age=200)  # made anew under the same name
    assert old.clean("--keep", "4", "--yes") == (0, f"total {size_of(old)}\nremoved .a.removed\n")
    assert old.names() == [".not a run.removed", *FOUR]


def test_secrets_go_with_their_run(old: Old, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("JOBC_SECRETS_ROOT", raising=False)
    for name in ("a", "b"):
        secrets_folder_of_run(old.runs / name).mkdir(parents=True)
        (secrets_folder_of_run(old.runs / name) / "TOKEN").write_text("value")
    assert old.clean("--keep", "3", "--yes")[0] == 0 and old.names() == ["b", "c", "d"]
    assert list((tmp_path / ".jobc/secrets").iterdir()) == [secrets_folder_of_run(old.runs / "b")]


def test_a_tree_is_removed_whatever_its_modes_and_depth_are(old: Old) -> None:
    (old.runs / "a/code/x").mkdir(parents=True)
    (old.runs / "a/code/x/y").write_text("")
    (old.runs / "a/code/x").chmod(0o500)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    last, name = os.open(old.runs / "a", os.O_RDONLY), 200 * "d"
    for _ in range(25):  # in a path that is longer than any
        os.mkdir(name, dir_fd=last)
        above, last = last, os.open(name, os.O_RDONLY, dir_fd=last)
        os.close(above)
    resource.setrlimit(resource.RLIMIT_NOFILE, (last + 16, limits[1]))  # fewer open files than levels
    os.close(last)
    code, output = old.clean("--keep", "3", "--yes")
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert code == 0 and old.names() == ["b", "c", "d"], output


def test_what_cannot_be_removed_is_an_error_and_the_rest_goes(old: Old) -> None:
    (old.runs / ".b.removed").touch()  # in the way of b
    code, output = old.clean("--keep", "2", "--yes")
    assert code == 1 and f"error: cannot remove {old.runs / 'b'}: Not a directory\n" in output
    assert old.names() == [".b.removed", "b", "c", "d"]


def test_a_link_in_the_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious/x").mkdir(parents=True)
    (tmp_path / "run").symlink_to(tmp_path / "precious")
    with pytest.raises(NotADirectoryError):
        removal.remove_own_folder(tmp_path / "run")
    parent = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(OSError):  # swapped after it was looked at
        removal.remove_tree("run", parent)
    os.close(parent)
    assert (tmp_path / "precious/x").is_dir() and (tmp_path / "run").is_symlink()


# ---- engines


def find(old: Old, engine: Engine) -> tuple[list[str], list[str]]:
    runs, spared = clean.find_old_runs(Place(old.artifact), engine, 0)
    return [run.id for run in runs], spared


@pytest.mark.parametrize(
    ("printed", "record", "why"),
    [
        ("7 RUNNING None\n", "job_0", "Slurm still lists job 7"),
        ("7 A_NEW_STATE None\n", "job_0", "Slurm still lists job 7"),
        ("7 COMPLETED None\n", "job_1", "attempt 0 has not been queued yet"),
        ("7 COMPLETED None\n", "job_0", ""),
        ("", "job_0", ""),
    ],
)
def test_slurm_knows_whether_a_job_has_ended(tmp_path: Path, printed: str, record: str, why: str) -> None:
    run, engine = make_run(tmp_path, **{f"state__{record}": "job_id=7\n"}), slurm(tmp_path, printed)
    engine.query_runs([run])
    assert engine.why_not_removable(run) == why


def test_a_run_stays_when_slurm_does_not_answer(tmp_path: Path) -> None:
    run, engine = make_run(tmp_path, state__job_0="job_id=7\n"), slurm(tmp_path, errors="x: down", code=1)
    engine.query_runs([run])
    assert engine.why_not_removable(run) == "Slurm does not respond: down"


def test_what_a_run_has_elsewhere_is_asked_for_and_its_secrets_go(
    old: Old, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, str]] = []

    class Elsewhere(Engine):
        def fetch(self, what: str, runs: Sequence[Run]) -> None:
            calls.append((what, "".join(run.id for run in runs)))
            if what == "state":
                (old.runs / "c/state/node_00").write_text(node(attempt=0))

    monkeypatch.setattr(Place, "engine", lambda place: Elsewhere(place.job))
    monkeypatch.setenv("JOBC_SECRETS_ROOT", str(tmp_path / "secrets"))
    secrets_folder_of_run(old.runs / "b").mkdir(parents=True)
    code, output = old.clean("--keep", "1", "--yes")
    assert code == 0 and "run c is kept: it is live\n" in output and old.names() == ["c", "d"]
    assert calls[0] == ("state", "cba") and [call for call in calls if call[0] == "secrets"] == [("secrets", "b")]
    assert not list((tmp_path / "secrets").iterdir())


def test_a_record_of_a_live_run_stays(tmp_path: Path) -> None:
    run = make_run(tmp_path, state__job_0=RECORD)
    assert kubernetes(tmp_path).why_not_removable(run) == "job demo is live in namespace ns"
    assert kubernetes(tmp_path, "Complete\t\t\n").why_not_removable(run) == ""
    assert kubernetes(tmp_path).why_not_removable(make_run(tmp_path, "not_sent")) == ""


def test_a_run_whose_engine_cannot_be_asked_stays(old: Old) -> None:
    (old.runs / "a/state/job_0").write_text(RECORD)
    engine = kubernetes(old.folder)
    engine.reply = lambda _: Answer(1, "", "no route")
    removable, spared = find(old, engine)
    assert removable == ["d", "c", "b"] and spared == ["run a is kept: the state of the run cannot be read"]
    assert "error: cannot query namespace ns: no route\n" in old.capsys.readouterr().err


def test_a_run_in_a_bucket_stays_when_it_cannot_be_removed_there(tmp_path: Path) -> None:
    job = make_job(tmp_path, storage="object", storage_root="/tmp", store={})
    run = make_run(tmp_path, state__job_0="cluster=c\nid=1\n")
    for code in (0, 1):
        (job.artifact / "jobctl").write_text(
            f"import sys; sys.exit({code} or sys.argv[1:] != ['depot', 'remove', 'demo/r'])"
        )
        assert SkypilotEngine(job).remove_outside_run_folder(run) is (code == 0)


def test_what_the_nodes_wrote_on_their_storage_is_theirs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = Job("demo", tmp_path, tmp_path / "runs/demo", {"storage": "shared", "storage_root": "/nodes"})
    assert SkypilotEngine(job).remove_outside_run_folder(make_run(tmp_path))
    assert capsys.readouterr().out == "  /nodes/demo/r on the nodes' storage is kept\n"
