"""status: what jobctl asks of Slurm, Kubernetes and SkyPilot, and how it reports their answers. Nothing is started."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from jobc.backends.kubernetes.engine.pods import why_pod_is_waiting
from jobc.backends.skypilot.engine.parse_output import first_failure_reason
from jobc.backends.skypilot.engine.skypilot_engine import SkypilotEngine
from jobc.backends.slurm.engine.slurm_engine import why_job_is_pending
from jobc.backends.slurm.engine.submission import require_known_jobs
from jobc.runtime.engines.engine import Answer, Engine, State
from jobc.runtime.run_folder.run import Run
from jobc.runtime.system.failure import Failure
from jobc.runtime.system.values import read_keys
from jobc.runtime.verbs import status

from .sample_runs import RECORD, kubernetes, make_job, make_run, node, pod, slurm


def lines(engine: Engine, run: Run) -> list[str]:
    return status._format_report(status.run_to_json_object(engine, run), "logs in")


# ---- Slurm


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
            "job 7 was cancelled with scancel (exit 75)",
        ),
        ("", "exit=1\n", {}, "failed (exit 1: crashed)"),
        ("", "", {"control__STOP": ""}, "stopped by jobctl stop before it started, job 7"),
        (
            "7 NODE_FAIL None\n",
            "",
            {},
            "failed: job 7 ended as NODE_FAIL without recording an exit code",
        ),
        ("7 CANCELLED None\n", "", {}, "failed: job 7 was cancelled without recording an exit code"),
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


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("ended by SIGTERM, as requested", "time limit reached; not requeued"),
        ("rank 0: killed, because it did not exit in time", "rank 0: killed, because it did not exit in time"),
    ],
)
def test_the_reason_of_a_slurm_run_that_stopped_early_is_that_of_its_job(
    tmp_path: Path, reason: str, expected: str
) -> None:
    record = "job_id=7\nexit=75\nreason=time limit reached; not requeued\n"
    run = make_run(tmp_path, state__job_0=record, state__node_00=node(attempt=0, ended=5, exit=75, reason=reason))
    assert lines(slurm(tmp_path), run)[1] == f"  reason: {expected}"


@pytest.mark.parametrize("after", ["afterok:5", "afterany:5:99998", "afterok:99998_3", "singleton"])
def test_after_names_only_jobs_that_slurm_knows(tmp_path: Path, after: str) -> None:
    engine = slurm(tmp_path)
    unknown = Answer(1, "", "slurm_load_jobs error: Invalid job id specified\n")
    engine.reply = lambda words: unknown if "99998" in words[-1] else Answer(0, "", "")
    why = f"--after: Slurm does not know job {after.rpartition(':')[2]}$"
    with pytest.raises(Failure, match=why) if "99998" in after else contextlib.nullcontext():
        require_known_jobs(engine, ["afterok:5", after], {})


def test_reasons_of_squeue_are_explained() -> None:
    assert why_job_is_pending("ReqNodeNotAvail, UnavailableNodes:n1").startswith("the job requests nodes that are down")
    assert why_job_is_pending("QOSMaxJobsPerUserLimit").endswith("(QOSMaxJobsPerUserLimit)")
    assert why_job_is_pending("Brand-New") == "Brand-New"


# ---- Kubernetes


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
jobc: rank 3 failed first (exit 1: KeyError: 'label_17'); the end of /runs/r/logs/rank_03.log:
Traceback (most recent call last):
  File "train.py", line 9, in <module>
KeyError: 'label_17'
jobc: exit 1: crashed
"""
SEEN = LOG.replace("jobc: rank", "a\nTraceback (most recent call last):\n  File x\nKeyError: 'label_17'\njobc: rank", 1)


@pytest.mark.parametrize(
    "log", [LOG, SEEN.replace("; the end of /runs/r/logs/rank_03.log:", ", see the end of /runs/r/logs/rank_03.log")]
)
def test_the_node_the_rank_and_the_traceback_of_the_first_failure_are_shown(tmp_path: Path, log: str) -> None:
    run = make_run(tmp_path, state__job_0=RECORD, **{"logs__first_failure.txt": log})
    engine = kubernetes(tmp_path, "Failed\tx\ty\n", pod(1, "Failed", "1"))
    state = engine.state(run)
    assert state.reason == "node 1: rank 3 failed first (exit 1: KeyError: 'label_17')"
    notes = list(engine.notes(run, state))
    assert (notes[0], notes[-1], len(notes)) == ("| Traceback (most recent call last):", "| KeyError: 'label_17'", 3)
    assert "--resume" in engine.resume_command(run, state)
    assert engine.resume_command(run, state._replace(reason="node 0: exit status 2: usage")) == "", (
        "it would fail again"
    )


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


def test_the_failed_ranks_own_node_gives_the_reason_of_a_skypilot_job() -> None:
    lines = [
        "jobc: node 0 failed first (exit 1: rank 3: exit status 3)",
        "jobc: rank 3 failed first (exit status 3), see the end of /r/logs/rank_03.log",
    ]
    assert first_failure_reason(lines, 1) == lines[1][6:]
    assert first_failure_reason([*lines, "jobc: rank 1 failed first (exit 65)"], 65) == "rank 1 failed first (exit 65)"


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
        "(worker1, rank=1, pid=9, ip=10.0.0.2) jobc: node 1 exited with 65: data\n"
        "(head, rank=0, pid=9) jobc: node 0 exited with 143: ended\n"
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
