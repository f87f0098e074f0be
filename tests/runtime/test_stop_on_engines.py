"""stop on Slurm, Kubernetes and SkyPilot: what it marks, signals and cancels, in which order, and how long it waits.

No engine is started: clients are stand-ins, and time passes only while stop waits.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobc.backends.kubernetes.engine import kubernetes_engine
from jobc.backends.skypilot.engine import skypilot_engine
from jobc.backends.slurm.engine.slurm_engine import SlurmEngine
from jobc.compiler.emit.points_json import PointFiles, points_json_text
from jobc.runtime.engines.artifact_location import Place
from jobc.runtime.engines.engine import Answer, Job
from jobc.runtime.run_folder.run import Run
from jobc.runtime.run_folder.run_secrets import secrets_folder_of_run
from jobc.runtime.system.failure import Failure

from .sample_runs import RECORD, listed, make_run, pod
from .stop_bed import Stop

SKY_RECORD = "kind={}\ncluster=c\nid=3\nexit=\nreason=\n"


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Stop:
    return Stop(tmp_path, monkeypatch, capsys)


# ---- Slurm


def slurm(demo: Stop, states: dict[str, str], ends_at: str = "--signal=TERM", **settings: Any) -> None:
    """states: of job ids, as squeue prints them; scancel with `ends_at` ends the job."""

    def answer(command: str) -> Answer | str:
        if command.startswith("squeue"):
            if "silent" in states:
                return Answer(1, "", "slurm_load_jobs error: Unable to contact slurm controller")
            return "".join(f"{job} {state}\n" for job, state in states.items())
        if ends_at in command:
            states[command.split()[-1].partition(".")[0]] = "CANCELLED None"
        return ""

    demo.set(SlurmEngine, answer, **settings)


@pytest.mark.parametrize(
    ("state", "record", "step", "commands"),
    [
        ("RUNNING None", "", "", ["scancel --signal=TERM 7"]),
        ("PENDING Priority", "", "", ["scancel 7"]),
        ("NEW_STATE None", "", "", ["scancel --signal=TERM 7"]),
        ("RUNNING None", "here=yes\n", "attempt=0\nstep=7.3\n", ["scancel --signal=TERM 7.3"]),
        ("PENDING None", "here=yes\n", "attempt=0\nstep=7.3\n", ["scancel --signal=TERM 7.3"]),
        ("RUNNING None", "here=yes\n", "", []),
        ("RUNNING None", "here=yes\n", "attempt=1\nstep=7.3\n", []),
        ("RUNNING None", "here=yes\n", "attempt=0\nstep=--me\n", []),
    ],
)
def test_slurm_signals_steps_and_cancels_what_waits(
    demo: Stop, state: str, record: str, step: str, commands: list[str]
) -> None:
    slurm(demo, {"7": state}, ends_at="7")
    run = demo.run(state__job_0=f"job_id=7\n{record}", **({"state__step": step} if step else {}))
    secrets_folder_of_run(run.path).mkdir(parents=True)
    demo()
    assert demo.signals("scancel")[: len(commands) or None] == commands
    assert secrets_folder_of_run(run.path).exists() == (commands != ["scancel 7"])


def test_a_kill_removes_the_job_but_not_an_allocation(demo: Stop) -> None:
    slurm(demo, {"7": "RUNNING None"}, ends_at="scancel 7")
    demo.run(state__job_0="job_id=7\n")
    assert demo("--now")[0] == 0 and demo.signals("scancel") == ["scancel --signal=QUIT 7", "scancel 7"]
    demo.calls.clear()
    slurm(demo, {"7": "RUNNING None"}, ends_at="KILL 7.1")
    demo.run("here", state__job_0="job_id=7\nhere=yes\n", state__step="attempt=0\nstep=7.1\n")
    assert demo("--run", "here", "--now")[0] == 0
    assert demo.signals("scancel") == ["scancel --signal=QUIT 7.1", "scancel --signal=KILL 7.1"]


@pytest.mark.parametrize("forged", ["--user=root", "1 --me", "", "7.0"])
def test_scancel_gets_no_option_from_a_record(demo: Stop, forged: str) -> None:
    slurm(demo, {"7": "RUNNING None"})
    demo.run(state__job_0=f"job_id={forged}\n")
    assert demo("--run", "r", "--now")[0] == 1 and not demo.signals("scancel")


def test_a_controller_that_is_silent_is_an_error_first_and_then_waited_for(demo: Stop) -> None:
    states = {"silent": ""}
    slurm(demo, states)
    run = demo.run(state__job_0="job_id=7\n")
    why = "Slurm does not respond: Unable to contact slurm controller"
    assert demo() == (1, f"error: {why}\n  hint: try again when the engine responds\n")
    assert not (run.path / "control").exists() and not demo.signals("scancel")
    states.update({"7": "RUNNING None"})
    del states["silent"]
    slurm(demo, states, ends_at="never")
    demo.clock.then = {
        2: lambda: states.update(silent=""),
        10: lambda: (states.pop("silent") and None) or states.update({"7": "COMPLETED None"}),
    }
    code, output = demo()
    assert code == 0 and output.count(f"{why}; asking again\n") == 1
    assert demo.clock.now >= 10 and demo.signals("scancel") == ["scancel --signal=TERM 7"]


def test_a_chosen_cluster_is_asked(demo: Stop, monkeypatch: pytest.MonkeyPatch) -> None:
    environments: list[object] = []
    job = Job("demo", demo.artifact, demo.folder, {"cluster": "big"})

    def ask(_: SlurmEngine, *__: object, environment: object) -> Answer:
        environments.append(environment)
        return Answer(0, "7 RUNNING x\n", "")

    monkeypatch.setattr(SlurmEngine, "ask", ask)
    engine = SlurmEngine(job)
    run = demo.run(state__job_0="job_id=7\n")
    engine.query_runs([run])
    engine.signal_or_cancel(run, "KILL")
    assert environments == [{"SLURM_CLUSTERS": "big"}] * 2


def sweep(demo: Stop, states: dict[str, str], **more: Any) -> list[Run]:
    slurm(demo, states, sweep=True, **more)
    points = [PointFiles(f"x={index}", f"point{index}", [], {}) for index in range(4)]
    demo.run("s", state__job_0="job_id=9\n", **{"artifact__0__points.json": points_json_text({}, points)})
    beside = []
    for index in range(3):  # the fourth has not been started
        point = make_run(demo.folder / str(index), f"s-{index}", state__job_0=f"job_id=9_{index}\n")
        folder = demo.folder / f"runs/point{index}/s-{index}"
        folder.parent.mkdir()
        point.path.rename(folder)
        beside.append(Run(folder))
    return beside


def test_all_points_of_a_sweep_are_marked_first_and_then_stopped(demo: Stop) -> None:
    states = {"9_0": "RUNNING None", "9_1": "PENDING JobArrayTaskLimit", "9_2": "COMPLETED None"}
    points = sweep(demo, states, ends_at="9_")
    (points[2].path / "state/job_0").write_text("job_id=9_2\nexit=0\n")
    code, output = demo()
    assert code == 0 and demo.signals("scancel") == ["scancel --signal=TERM 9_0", "scancel 9_1"]
    assert [(point.path / "control/STOP").exists() for point in points] == [True, True, False]
    assert output.startswith("stopping sweep s: it has 30 s to exit\nsweep s of demo, job array 9: ")
    assert output.count("stopped by jobctl stop before it started") == 2 and output.count("done (exit 0)") == 1
    assert output.endswith("    3  x=3  not started\n")


def test_points_that_do_not_end_are_killed_and_then_an_error(demo: Stop) -> None:
    sweep(demo, {"9_0": "RUNNING None", "9_1": "COMPLETED None"}, ends_at="never")
    code, output = demo("--now")
    assert code == 1 and "error: some points are still running\n" in output and "stopping sweep" not in output
    assert demo.signals("scancel") == ["scancel --signal=QUIT 9_0", "scancel 9_0"] and 30 <= demo.clock.now < 34


# ---- Kubernetes


def kubernetes(demo: Stop, pods: list[str], refused: str = "", **settings: Any) -> None:
    """pods: as kubectl lists them; signals end the ranks of all, deletion removes the object."""
    there = {"uid": "u", "conditions": ""}

    def answer(command: str) -> Answer | str:
        command = command.partition(" --namespace=ns ")[2]
        if refused and refused in command:
            return Answer(1, "", f"error: {refused} is forbidden")
        if command.startswith("delete"):
            there["uid"] = ""
        if "kill -TERM 1" in command:
            there["conditions"] = "Complete\tx\ty\n"
        if command.startswith("get job"):
            return f"{there['uid']}\t\tbatch/v1\tJob\tdemo\n{there['conditions']}"
        return listed("".join(pods)) if command.startswith("get pods") else ""

    keys = {"kinds": ["job"], "companions": ["configmap"], "storage_root": "/runs", "nodes": 2, **settings}
    demo.set(kubernetes_engine.KubernetesEngine, answer, **keys)


DELETION = "delete --raw /apis/batch/v1/namespaces/ns/jobs/demo --filename=-"


def changes(demo: Stop) -> list[str]:
    """The commands that change something, without context and namespace."""
    calls = [call.partition(" --namespace=ns ")[2] for call in demo.calls]
    return [call for call in calls if not call.startswith(("get ", "logs "))]


@pytest.mark.parametrize(("storage", "marked"), [("shared", 1), ("node", 2), ("object", 1)])
def test_pods_are_marked_and_then_get_the_signal(demo: Stop, storage: str, marked: int) -> None:
    kubernetes(demo, [pod(0, "Running"), pod(1, "Running")], storage=storage)
    run = demo.run(state__job_0=RECORD)
    code, output = demo()
    assert code == 0 and output.endswith("run r: stopped by jobctl stop (exit 0)\n"), output
    folder = "node_00/" if storage == "object" else ""
    mark = 'mkdir -p -- "$1/control" && echo "$JOBC_JOB_UID" >"$1/control/STOP"'
    mark = f"exec demo-0 --container=node -- bash -c {mark} - /runs/{folder}demo/r"
    kills = [f"exec demo-{index} --container=node -- bash -c kill -TERM 1" for index in (0, 1)]
    assert changes(demo)[0] == mark and changes(demo)[marked:] == kills
    assert (run.path / "control/STOP").exists()


def test_an_object_whose_pods_have_not_started_is_deleted(demo: Stop) -> None:
    kubernetes(demo, [pod(0, "Pending"), pod(1, "Failed", init="1")])
    run = demo.run(state__job_0=RECORD)
    assert "stopped by jobctl stop; its object was deleted" in demo()[1]
    assert changes(demo) == [DELETION]
    assert (run.path / "logs/first_failure.txt").exists(), "what the failed pod printed"


def test_a_kill_deletes_the_object(demo: Stop) -> None:
    kubernetes(demo, [pod(0, "Running"), pod(1, "Running")])
    demo.run(state__job_0=RECORD)
    assert demo("--now")[0] == 0
    assert changes(demo)[1:] == [
        "exec demo-0 --container=node -- bash -c kill -QUIT 1",
        "exec demo-1 --container=node -- bash -c kill -QUIT 1",
        DELETION,
    ]


def test_another_object_of_that_name_is_not_deleted(demo: Stop) -> None:
    kubernetes(demo, [])
    run = demo.run(state__job_0=RECORD.replace("uid=u", "uid=v"))
    Place(demo.artifact).engine().signal_or_cancel(run, "KILL")
    assert not changes(demo)


@pytest.mark.parametrize("words", [(), ("--now",)])
def test_a_job_whose_pods_take_no_mark_is_deleted(demo: Stop, words: tuple[str, ...]) -> None:
    """A user without permission to create pods/exec: deleting the job sends SIGTERM to its pods."""
    kubernetes(demo, [pod(0, "Running")], refused="exec")
    run = demo.run(state__job_0=RECORD)
    code, output = demo(*words)
    assert code == 0 and "stopped by jobctl stop; its object was deleted" in output
    assert "warning: cannot write the stop mark in a pod: error: exec is forbidden; job demo is deleted" in output
    assert changes(demo)[1:] == [DELETION] and (run.path / "control/STOP").exists()


# ---- SkyPilot


def skypilot(demo: Stop, status: str = "RUNNING", ends_at: str = "STOP", up: str = "UP", **settings: Any) -> None:
    """status: of the job; it ends when a command has the words `ends_at`. up: status of the cluster, until sky down."""
    there = {"status": status, "up": up}

    def answer(command: str) -> Answer | str:
        if ends_at in command:
            there["status"] = "SUCCEEDED" if ends_at == "STOP" else "CANCELLED"
        if "sky down" in command:
            there["up"] = ""
        if " queue " in command:
            is_listed = "--skip-finished" not in command or there["status"] == "RUNNING"
            return json.dumps({"c": [{"job_id": 3, "status": there["status"]}] if is_listed else []})
        if command.startswith("sky status"):
            return json.dumps([{"status": there["up"]}] if there["up"] else [])
        return Answer(1, "", "no credentials") if "depot" in command and settings.get("broken") else ""

    def stream(words: list[str], **_: object) -> int:
        demo.calls.append(" ".join(words))
        answer(" ".join(words))
        return 0

    keys = {"cluster": "c", "storage_root": "~/runs", "storage": "node", "nodes": 2, **settings}
    demo.set(skypilot_engine.SkypilotEngine, answer, **keys)
    demo.monkeypatch.setattr(skypilot_engine, "print_client_output", stream)
    demo.monkeypatch.setattr("shutil.which", lambda _: None if settings.get("missing") else "sky")


def cancels(demo: Stop) -> list[str]:
    return [call for call in demo.calls if " cancel " in call or " down " in call]


def test_nodes_of_a_cluster_are_marked_by_ssh_and_the_job_saves(demo: Stop) -> None:
    skypilot(demo, ends_at="c-worker1")
    run = demo.run(state__job_0=SKY_RECORD.format(""))
    code, output = demo()
    assert code == 0 and "it has 30 s to exit" in output and "c is up (2 nodes) and costs money" in output, output
    assert [call.split(" -- ")[1].split()[0] for call in demo.signals("control/STOP")] == ["c", "c-worker1"]
    assert not cancels(demo) and (run.path / "control/STOP").exists()


def test_a_job_that_does_not_run_yet_or_does_not_end_is_cancelled(demo: Stop) -> None:
    skypilot(demo, "PENDING", ends_at=" cancel ")
    demo.run("a", state__job_0=SKY_RECORD.format(""))
    assert demo()[0] == 0 and cancels(demo) == ["sky cancel --yes c 3"] and demo.clock.now == 0
    demo.calls.clear()
    skypilot(demo, "RUNNING", ends_at=" cancel ")
    demo.run("b", state__job_0=SKY_RECORD.format(""))
    assert "still running after 70 s\nkilling run b\n" in demo()[1] and cancels(demo) == ["sky cancel --yes c 3"]


def test_a_node_that_cannot_be_reached_is_named(demo: Stop) -> None:
    skypilot(demo, ends_at=" cancel ")
    demo.run(state__job_0=SKY_RECORD.format(""))
    ask = skypilot_engine.SkypilotEngine.ask
    demo.monkeypatch.setattr(
        skypilot_engine.SkypilotEngine,
        "ask",
        lambda engine, words, *rest, **named: (
            Answer(255, "", "") if words[0] == "ssh" else ask(engine, words, *rest, **named)
        ),
    )
    output = demo()[1]
    assert "node 0 cannot be reached: SkyPilot cancels the job" in output and "node 1 cannot be reached" in output


@pytest.mark.parametrize(
    ("settings", "cancelled"),
    [
        ({"storage": "node"}, True),
        ({"storage": "object", "store": {"JOBC_STORE": "s3://b"}}, False),
        ({"storage": "object", "store": {"JOBC_STORE": "s3://b"}, "broken": True}, True),
        ({"storage": "shared", "storage_root": "mounted"}, False),
    ],
)
def test_a_managed_job_is_cancelled_unless_its_machines_see_the_mark(
    demo: Stop, settings: dict[str, Any], cancelled: bool
) -> None:
    if "storage_root" in settings:
        (demo.folder / "mounted/demo/r").mkdir(parents=True)
        settings = {**settings, "storage_root": str(demo.folder / "mounted")}
    skypilot(demo, ends_at=" cancel ", managed=True, up="", **settings)
    demo.run(state__job_0=SKY_RECORD.format("managed"))
    code, output = demo()
    assert code == 0 and ("cannot be reached from here" in output) == cancelled
    assert cancels(demo) == ["sky jobs cancel --yes 3"] and (demo.clock.now == 0) == cancelled
    assert ("no credentials" in output) == ("broken" in settings)
    assert "storage_root" not in settings or (demo.folder / "mounted/demo/r/control/STOP").exists()


def test_down_ends_the_cluster_and_without_a_live_run_only_that(demo: Stop) -> None:
    skypilot(demo, ends_at="STOP")
    demo.run(state__job_0=SKY_RECORD.format(""))
    code, output = demo("--down")
    assert code == 0 and cancels(demo) == ["sky down --yes c"] and "c has been deleted and no longer costs" in output
    demo.calls.clear()
    assert demo("--down") == (0, "  cluster c has been deleted and no longer costs anything\n") and not cancels(demo)
    skypilot(demo)
    assert demo("--down")[0] == 0 and cancels(demo) == ["sky down --yes c"]
    assert demo()[0] == 1


@pytest.mark.parametrize(("status", "downs"), [("RUNNING", 0), ("SUCCEEDED", 1)])
def test_a_cluster_on_slurm_ends_with_its_last_job(demo: Stop, status: str, downs: int) -> None:
    skypilot(demo, status, ends_at="never", ends_with_last_job=True)
    Place(demo.artifact).engine().release_machines(False)
    assert len(cancels(demo)) == downs


def test_a_job_that_does_not_end_is_an_error_unless_its_machines_go(demo: Stop) -> None:
    skypilot(demo, ends_at="never")
    demo.run(state__job_0=SKY_RECORD.format(""))
    code, output = demo("--now")
    assert code == 1 and output.endswith(
        f"error: run r is still running\n  hint: {demo.artifact}/jobctl stop --down deletes its machines\n"
    )
    assert demo.clock.now >= 60 and demo("--now", "--down")[0] == 0


def test_without_sky_nothing_is_done(demo: Stop) -> None:
    skypilot(demo, missing=True)
    run = demo.run(state__job_0=SKY_RECORD.format(""))
    assert demo()[1].startswith("error: sky was not found\n") and not (run.path / "control").exists()
    with pytest.raises(Failure):
        Place(demo.artifact).engine().machine_cost_lines().__next__()
