"""submit, smoke, preflight and shell of backend skypilot without SkyPilot: what is sent, recorded, and left behind."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobc.backends.skypilot.engine import starting
from jobc.backends.skypilot.engine.launch import (
    LaunchedPayload,
    require_files_to_send,
    run_and_capture,
    sky_launch_arguments,
)
from jobc.backends.skypilot.engine.parse_output import parse_job_id
from jobc.backends.skypilot.engine.skypilot_engine import SkypilotEngine
from jobc.runtime.engines.artifact_location import Place
from jobc.runtime.engines.check_table import Table
from jobc.runtime.engines.engine import Answer, State
from jobc.runtime.engines.new_run import NewRun, create_next_attempt, create_run
from jobc.runtime.run_folder.run import Run
from jobc.runtime.run_folder.submitted_values import NO_VALUES, SubmittedValues
from jobc.runtime.system.failure import Failure
from jobc.runtime.verbs import submit

RECORDS: dict[str, Any] = {"place": "demo/skypilot", "identity": [], "spec": []}
SUBMITTED = "\x1b[32mJob submitted, ID: \x1b[0m7\nUseful commands\nJob ID: 8\n"


class Project:
    """An artifact of job demo, and a sky that answers with `code` and `text`, or raises `error`."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        artifact = folder / "artifacts/demo/skypilot"
        (artifact / ".jobc").mkdir(parents=True)
        job = {"job": "demo", "runs": "runs", "backend": "skypilot", "nodes": 1, "cluster": "c", **RECORDS, **settings}
        (artifact / ".jobc/job.json").write_text(json.dumps(job))
        (artifact / "jobctl").write_text("program\n")
        self.place = Place(artifact)
        self.engine = SkypilotEngine(self.place.job)
        self.code, self.text = 0, SUBMITTED
        self.error: BaseException | None = None
        self.calls: list[tuple[str, Path]] = []
        self.environments: list[object] = []

    def sky(self, words: list[str], environment: object, folder: Path, is_shown: bool = True) -> tuple[int, str]:
        self.calls.append((" ".join(words), folder))
        self.environments.append(environment)
        if self.error is not None:
            raise self.error
        return self.code, self.text

    def start(self, new: NewRun, init_from: str = "", values: SubmittedValues = NO_VALUES, **options: bool) -> int:
        with new:
            (new.run.path / "code").mkdir(exist_ok=True)
            (new.run.path / "code/a.py").write_text("a\n")
            if new.attempt == 0:
                new.write_description(init_from, values)
            chosen = argparse.Namespace(**{"wait": False, "only_prepare": False, **options})
            return self.engine.start(new, init_from, chosen)

    def create(self, run_id: str = "a") -> NewRun:
        return create_run(self.place, self.engine, run_id)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Project]:
    def make(**settings: Any) -> Project:
        made = Project(tmp_path, **settings)
        monkeypatch.setattr(starting, "run_and_capture", made.sky)
        monkeypatch.setattr(SkypilotEngine, "ask_engine", lambda *_: "gone")
        return made

    return make


def test_the_artifact_and_the_code_are_sent_under_the_name_of_the_run(
    project: Callable[..., Project], capsys: pytest.CaptureFixture[str]
) -> None:
    demo = project()
    new = demo.create()
    assert demo.start(new, "/somewhere/runs/demo/old") == 0
    (words, folder), run = demo.calls[0], new.run.path
    assert words == (
        "sky launch --cluster c --yes --detach-run --env JOBC_ARTIFACT=a/artifact/0 --env JOBC_PAYLOAD=train"
        " --env JOBC_RUN_ID=a --env JOBC_ATTEMPT=0 --env JOBC_FORK_OF=old a/artifact/0/task.sky.yaml"
    )
    sent = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert folder == run / "sent" and sent == {
        ".skyignore", "a/artifact/0/.jobc/job.json", "a/artifact/0/jobctl", "a/code/a.py",
    }  # fmt: skip
    assert (folder / "a/code/a.py").samefile(run / "code/a.py"), "a link, not another copy"
    assert (run / "state/job_0").read_text() == "kind=\ncluster=c\nid=8\nexit=\nreason=\n"
    assert capsys.readouterr().out == (
        f"run a: job 8 of cluster c\n  follow: {run}/artifact/0/jobctl logs --follow\n"
        f"  stop:   {run}/artifact/0/jobctl stop\n"
    )


def test_the_nodes_of_each_attempt_get_what_submit_was_given(project: Callable[..., Project]) -> None:
    demo, values = project(), SubmittedValues(("--lr", "2"), {"A": "it's \n1"})
    assert demo.start(demo.create(), values=values) == 0
    assert demo.start(create_next_attempt(demo.place, demo.engine, demo.place.choose_run("a"), False)) == 0
    assert [f" --env JOBC_SUBMITTED={values.encode_for_variable()} " in words for words, _ in demo.calls] == [True] * 2


@pytest.mark.parametrize(("code", "text", "said"), [(1, SUBMITTED, "rejects the job"), (0, "?", "the job ID")])
def test_a_launch_that_fails_leaves_no_run(project: Callable[..., Project], code: int, text: str, said: str) -> None:
    demo = project()
    demo.code, demo.text = code, text
    new = demo.create()
    with pytest.raises(Failure, match=said):
        demo.start(new)
    assert not new.run.path.exists()


def test_a_resume_whose_launch_failed_can_be_sent_again(project: Callable[..., Project]) -> None:
    demo = project()
    new = demo.create()
    demo.start(new)
    for code in (1, 0):
        demo.code = code
        new = create_next_attempt(demo.place, demo.engine, new.run, new_code=False)
        if code:
            with pytest.raises(Failure):
                demo.start(new)
        else:
            demo.start(new)
    assert new.attempt == 1 and (new.run.path / "sent/a/artifact/0/jobctl").is_file()
    assert [path.name for path in (new.run.path / "sent/a/artifact").iterdir()] == ["0"], "the same files are sent once"
    assert (new.run.path / "state/job_1").is_file()


def test_after_a_signal_the_user_reads_where_the_job_may_be(
    project: Callable[..., Project], capsys: pytest.CaptureFixture[str]
) -> None:
    demo = project()
    demo.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        demo.start(demo.create())
    assert "SkyPilot may have accepted the job: check with sky queue or sky jobs queue\n" in capsys.readouterr().err


def test_only_prepare_sends_nothing_and_prints_the_run(
    project: Callable[..., Project], capsys: pytest.CaptureFixture[str]
) -> None:
    demo = project(secrets=["NOT_SET"])
    new = demo.create()
    assert demo.engine.check_before_start(argparse.Namespace(only_prepare=True)) is None
    assert demo.start(new, only_prepare=True) == 0 and not demo.calls
    assert capsys.readouterr().out == f"{new.run.path}\n" and new.run.path.is_dir()


def test_with_wait_the_exit_code_is_the_jobs(
    project: Callable[..., Project], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = project()
    printed = "(head, rank=0, pid=1) jobc: node 0 exited with 65: invalid\n"
    monkeypatch.setattr(SkypilotEngine, "ask_engine", lambda *_: "ended")
    monkeypatch.setattr(SkypilotEngine, "run_sky", lambda *_: printed)
    assert demo.start(demo.create(), wait=True) == 65
    assert capsys.readouterr().out.endswith("jobctl stop\n0: jobc: node 0 exited with 65: invalid\n" + ENDED_LINES)


ENDED_LINES = """\
run a: failed (exit 65: invalid data or configuration: a restart will not help)
  reason: SkyPilot reports
"""


def test_a_managed_job_has_a_name_and_its_checks_a_cluster_that_ends(tmp_path: Path) -> None:
    settings = {"cluster": "c", "managed": True, "check_words": ["--idle-minutes-to-autostop", "2", "--down"]}
    run = Run(tmp_path)
    words = sky_launch_arguments(settings, LaunchedPayload("train", run, "a.b_c", 3))
    assert words[:4] == ["jobs", "launch", "--name", "c-a-b-c-3"] and "--down" not in words
    words = sky_launch_arguments(settings, LaunchedPayload("smoke", run, "smoke-1", 0))
    assert words[:3] == ["launch", "--cluster", "c"] and words[-4:-1] == settings["check_words"]


def test_what_shall_be_sent_must_be_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("TOKEN", raising=False)
    with pytest.raises(Failure, match="secret: the environment variable TOKEN is not set") as failed:
        require_files_to_send({"secrets": ["TOKEN"]})
    assert failed.value.code == 65
    with pytest.raises(Failure, match="no ~/data on "):
        require_files_to_send({"local_files": ["~/data"]})
    (tmp_path / "data").touch()
    monkeypatch.setenv("TOKEN", "x")
    require_files_to_send({"secrets": ["TOKEN"], "local_files": ["~/data"]})


def test_the_nodes_keep_the_code_of_the_first_start(
    project: Callable[..., Project], capsys: pytest.CaptureFixture[str]
) -> None:
    demo = project()
    with pytest.raises(Failure, match="unknown option: --new-code"):
        submit._parse_arguments(["--resume", "a", "--new-code"], demo.place, demo.engine)
    new = demo.create()
    demo.start(new)
    capsys.readouterr()
    create_next_attempt(demo.place, demo.engine, new.run, new_code=False).discard()
    assert "using the code copied at the first start" in (said := capsys.readouterr().out) and "--new-code" not in said


@pytest.mark.parametrize(
    ("setting", "expected"), [(False, {"SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}), (True, {})], ids=["off", "on"]
)
def test_sky_sends_its_developers_nothing_unless_the_option_allows_it(
    project: Callable[..., Project], monkeypatch: pytest.MonkeyPatch, setting: bool, expected: dict[str, str]
) -> None:
    demo = project(usage_collection=setting)
    asked: list[object] = []
    monkeypatch.setattr(SkypilotEngine, "require_client", lambda _: None)

    def ask(*arguments: object) -> Answer:
        asked.append(arguments[-1])
        return Answer(0, "", "")

    monkeypatch.setattr(SkypilotEngine, "ask", ask)
    demo.start(demo.create())
    demo.engine.preflight(demo.place, argparse.Namespace(queue_only=True))
    demo.engine.run_sky("status")
    assert [*demo.environments, *asked] == [expected] * 3


# ---- the same nodes for another purpose


class Nodes:
    """Nodes of a cluster, whose check prints lines and ends with a code. It is kept how they were called."""

    def __init__(self, demo: Project, monkeypatch: pytest.MonkeyPatch, code: int, *lines: bytes) -> None:
        self.calls: list[str] = []
        self.folders: list[set[str]] = []

        def stream(words: list[str], change: Callable[[bytes], bytes | None], **_: object) -> int:
            self.calls.append(" ".join(words))
            sent = demo.calls[-1][1]
            self.folders.append({path.relative_to(sent).as_posix() for path in sent.glob("*/*")})
            for line in lines:
                sys.stdout.write((change(line) or b"").decode())
            return 0

        monkeypatch.setattr(SkypilotEngine, "require_client", lambda _: None)
        monkeypatch.setattr(SkypilotEngine, "state_now", lambda *_: State("done" if not code else "failed", "", code))
        monkeypatch.setattr(starting, "print_client_output", stream)
        monkeypatch.setattr("os.urandom", lambda _: b"abcd")


LINES = (
    b"(setup pid=1) hello\n",
    b"\x1b[36m(head, rank=0, pid=1)\x1b[0m ok\tnet\tit is there\n",
    b"(worker1, rank=1, pid=2) end\n",
    b"(head, rank=0, pid=1) end\n",
    b"(head, rank=0, pid=1) jobc: node 0 exited with 0: done\n",
    b"Job 8 finished\n",
)


@pytest.mark.parametrize("code", [0, 69])
def test_smoke_prints_what_the_nodes_say_and_leaves_nothing(
    project: Callable[..., Project],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    code: int,
) -> None:
    demo = project(code={"kind": "snapshot"}, check_words=["--down"], managed=True)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    nodes = Nodes(demo, monkeypatch, code, *LINES)
    assert demo.engine.smoke(demo.place) == (1 if code else 0)
    assert capsys.readouterr().out == "0: ok\tnet\tit is there\n1: end\n0: end\n"
    (words, sent), name = demo.calls[0], "smoke-61626364"
    assert f"--env JOBC_PAYLOAD=smoke --env JOBC_RUN_ID={name} --env JOBC_ATTEMPT=0" in words and "--down" in words
    assert words.startswith("sky launch --cluster c ") and words.endswith(f" {name}/artifact/0/task.sky.yaml")
    assert nodes.calls == ["sky logs --tail 0 --follow c 8"], "a check is no managed job"
    assert nodes.folders == [{f"{name}/artifact"}] and not sent.exists(), "no code is sent, and nothing stays"


def test_preflight_is_a_table_of_what_the_nodes_check(
    project: Callable[..., Project], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = {"kind": "snapshot", "root": "src", "max_bytes": 1000, "script": ""}
    demo = project(code=code, nodes=2)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").touch()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    nodes = Nodes(demo, monkeypatch, 0, *LINES)
    table = demo.engine.preflight(demo.place, argparse.Namespace(queue_only=False))
    assert isinstance(table, Table) and table.lines() == (True, ["ok    0  it is there", "ready: 2 nodes"])
    assert demo.calls[0] == ("sky launch --dryrun --yes --cluster c task.sky.yaml", demo.place.artifact)
    assert nodes.folders == [{"preflight-61626364/artifact", "preflight-61626364/code"}]


def test_preflight_says_what_skypilot_would_launch(
    project: Callable[..., Project], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = project()
    Nodes(demo, monkeypatch, 0)
    demo.text = "\x1b[2mConsidered\x1b[0m\n------\n  AWS (us-east-1)   p4d   24\nDryrun finished.\n"
    assert demo.engine.preflight(demo.place, argparse.Namespace(queue_only=True)) == 0
    assert capsys.readouterr().out == "ok    SkyPilot would launch the job\n        AWS (us-east-1)   p4d   24\n"
    demo.code, demo.text = 1, "a\nb\n\x1b[31mno H100\nin any\ncloud\n"
    assert demo.engine.preflight(demo.place, argparse.Namespace(queue_only=False)) == 1
    assert capsys.readouterr().out == "FAIL  SkyPilot rejects the job: no H100 in any cloud\n"


@pytest.fixture
def shell(
    project: Callable[..., Project], monkeypatch: pytest.MonkeyPatch
) -> tuple[Project, list[tuple[list[str], str]]]:
    """A project with run a, on a cluster that is up, and what ssh is called with: words, input"""
    demo = project(secrets=["TOKEN"], storage_root="~/runs", storage="object")
    calls: list[tuple[list[str], str]] = []
    monkeypatch.setenv("TOKEN", "hidden")
    monkeypatch.setattr(SkypilotEngine, "require_client", lambda _: None)
    monkeypatch.setattr(SkypilotEngine, "status_of", lambda *_: "UP")
    demo.start(demo.create())

    def ask(_: object, words: list[str], text: str = "") -> Answer:
        calls.append((words, text))
        return Answer(3, "", "")

    monkeypatch.setattr(SkypilotEngine, "ask", lambda *words, **text: ask(*words, **text)._replace(code=0))
    monkeypatch.setattr(starting, "run_attached_to_terminal", lambda words: ask(None, words).code)
    return demo, calls


def test_a_shell_has_the_secrets_while_it_runs(shell: tuple[Project, list[tuple[list[str], str]]]) -> None:
    demo, calls = shell
    assert demo.engine.shell(demo.place, "", 1, ["echo", "a b"]) == 3
    assert [words[-2] for words, _ in calls] == ["c-worker1"] * 3 and [text for _, text in calls] == ["hidden", "", ""]
    save, ask, forget = (words[-1] for words, _ in calls)
    assert "join secret" in save and save.endswith(" - runs/node_01/demo/a 0 TOKEN") and "hidden" not in save
    assert "launch.sh" in ask and ask.endswith(" - runs/node_01/demo/a 0 1 echo 'a b'")
    assert "join forget" in forget and forget.endswith(" - runs/node_01/demo/a 0")


def test_the_secrets_are_forgotten_after_ctrl_c(
    shell: tuple[Project, list[tuple[list[str], str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    demo, calls = shell

    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(starting, "run_attached_to_terminal", interrupted)
    with pytest.raises(KeyboardInterrupt):
        demo.engine.shell(demo.place, "a", 0, [])
    assert "join forget" in calls[-1][0][-1]


def test_a_shell_needs_a_cluster_that_is_up_and_can_be_reached(
    shell: tuple[Project, list[tuple[list[str], str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    demo, calls = shell
    monkeypatch.setattr(SkypilotEngine, "status_of", lambda *_: "STOPPED")
    with pytest.raises(Failure, match="cluster c is not up"):
        demo.engine.shell(demo.place, "", 0, [])
    monkeypatch.setattr(SkypilotEngine, "status_of", lambda *_: "UP")
    (demo.place.job.runs / "a/state/job_0").write_text("kind=\ncluster=-oProxyCommand=x\nid=8\n")
    with pytest.raises(Failure, match="cluster c is not up"):
        demo.engine.shell(demo.place, "", 0, [])
    demo.place.job.settings["managed"] = True
    with pytest.raises(Failure, match="managed job cannot be reached"):
        demo.engine.shell(demo.place, "", 0, [])
    assert not calls


def test_the_number_of_the_job_is_the_last_one_that_sky_prints() -> None:
    assert parse_job_id(SUBMITTED) == 8 and parse_job_id("Managed Job ID: 12 (x)") == 12
    assert parse_job_id("Job ID: x1") is None and parse_job_id("") is None


def test_what_a_client_prints_is_shown_and_returned(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = "import os, sys; print(os.getcwd(), os.environ['A'], flush=True); sys.exit('why')"
    code, text = run_and_capture([sys.executable, "-c", script], {"A": "b"}, tmp_path)
    assert (code, text) == (1, f"{tmp_path} b\nwhy\n") and capfd.readouterr() == ("", text)
