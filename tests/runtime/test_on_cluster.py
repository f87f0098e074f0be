"""Backend kubernetes: submit and the objects that it creates and deletes, against a stand-in for kubectl.

No program is started. Behavior that only real pods show is tested in tests/backends/test_on_pods.py.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobc.backends.kubernetes.engine import object_creation
from jobc.runtime.engines.artifact_location import Place
from jobc.runtime.engines.engine import Answer
from jobc.runtime.run_folder.submitted_values import SubmittedValues
from jobc.runtime.system.failure import Failure
from jobc.runtime.verbs import preflight, submit

from .kubectl_stand_in import API, CREATES, DONE, LIVE, MANIFESTS, TRAIN_JOB, Demo

RUNTIME = "trainer.kubeflow.org/v1alpha1\tTrainingRuntime\tdemo-1a2b\tuid-7\t41\n"
TRAIN_MANIFESTS = "kind: TrainingRuntime\n---\nkind: TrainJob\n---\nkind: ConfigMap\n"


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Demo]:
    made = Demo(tmp_path, monkeypatch, capsys)
    yield made
    for folder in tmp_path.glob("runs/demo/*/artifact/*"):
        folder.chmod(0o755)


def test_submit_creates_the_objects_and_records_them(demo: Demo) -> None:
    code, output = demo.submit("--run-id", "a")
    assert code == 0 and output.startswith("run a: job.batch demo-1a2b in namespace ns\n  follow: "), output
    assert demo.record() == {"uid": "uid-1", **CREATES, "nodes": "2", "context": "", "namespace": "ns"} | {
        "exit": "", "reason": ""
    }  # fmt: skip
    job, companions = demo.kubectl.created
    variables = [{"name": "JOBC_PAYLOAD", "value": "train"}, {"name": "JOBC_RUN_ID", "value": "a"}]
    assert yaml.safe_load(job)["spec"]["env"] == [*variables, {"name": "JOBC_JOB_UID", "value": "none"}]
    assert re.search(r"{jobc/owner: \"annb@[\w.-]+, run a\"}$", job, re.MULTILINE)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "demo-1a2b", "uid": "uid-1"}
    assert f"metadata:\n  ownerReferences: [{json.dumps(owner)}]\n  name: demo-1a2b\n" in companions
    assert [call.split()[0] for call in demo.kubectl.changes()] == ["create", "create"]
    assert (demo.folder / "runs/demo/a/state/resume").read_text().endswith("jobctl submit --resume a\n")


def test_a_fork_names_the_run_with_whose_checkpoint_it_begins(demo: Demo) -> None:
    assert demo.submit("--run-id", "a")[0] == 0
    assert demo.submit("--fork", "a", "--run-id", "b")[0] == 0
    assert '{name: JOBC_FORK_OF, value: "a"}\n' in demo.kubectl.created[-2]


def test_the_namespace_is_that_of_kubectl_where_the_spec_sets_none(demo: Demo) -> None:
    demo.set(namespace=None, context="c")
    assert demo.submit("--run-id", "a")[0] == 0
    assert demo.record()["namespace"] == "own" and demo.record()["context"] == "c"
    assert "config view --minify --context=c --output=jsonpath={..namespace}" in demo.kubectl.calls


def test_what_the_server_refuses_changes_nothing(demo: Demo) -> None:
    demo.kubectl.refusal = "kind: Job"
    code, output = demo.submit("--run-id", "a")
    assert code == 1 and "error: the cluster rejects the job in namespace ns: error: kind: Job is refused\n" in output
    assert f"hint: {demo.artifact}/jobctl preflight --queue-only tries again" in output
    demo.kubectl.found = DONE
    assert demo.submit("--replace")[0] == 1, "the ended run keeps its pods and their logs"
    assert not demo.kubectl.changes() and not demo.runs
    assert demo(preflight, "--queue-only")[0] == 1


@pytest.mark.parametrize(
    "errors",
    [
        "error: invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER",
        "Unable to connect to the server: dial tcp 10.0.0.1:6443: i/o timeout",
        "The connection to the server localhost:8080 was refused - did you specify the right host or port?",
    ],
)
def test_a_server_that_does_not_respond_has_rejected_nothing(demo: Demo, errors: str) -> None:
    demo.kubectl.refusal, demo.kubectl.refused = "kind: Job", errors
    code, output = demo.submit("--run-id", "a")
    assert code == 1 and f"error: cannot reach the cluster for namespace ns: {errors}\n  hint: kubectl " in output
    code, output = demo(preflight, "--queue-only")
    assert code == 1 and f"FAIL  cannot reach the cluster for namespace ns: {errors}\n      hint: kubectl" in output
    demo.kubectl.refused = f"Error from server (InternalError): failed calling webhook: {errors}"
    assert "error: the cluster rejects the job in namespace ns: Error from server" in demo.submit("--run-id", "a")[1]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Failure("the disk is full")])
def test_an_end_in_the_middle_leaves_neither_objects_nor_a_run(demo: Demo, error: BaseException) -> None:
    def fail() -> None:
        raise error

    demo.kubectl.on_companions = fail
    place = Place(demo.artifact)
    with pytest.raises(type(error)):
        submit.main(["--run-id", "a"])
    assert demo.kubectl.changes()[-1] == f"{API}/demo-1a2b --filename=-"
    assert not demo.runs and place.job.name == "demo"


def test_an_object_that_exists_is_replaced_only_if_it_has_ended_and_that_is_meant(demo: Demo) -> None:
    demo.kubectl.found = LIVE
    code, output = demo.submit("--replace")
    assert code == 1 and "job.batch demo-1a2b is live in namespace ns, started by ann@host, run z\n" in output
    demo.kubectl.found = DONE
    code, output = demo.submit()
    assert code == 1 and "has ended in namespace ns, started by ann@host, run z\n" in output and "--replace" in output
    assert not demo.kubectl.changes() and not demo.runs
    assert demo.submit("--replace", "--run-id", "a")[0] == 0
    assert demo.kubectl.changes()[0] == f"{API}/demo-1a2b --filename=-"


def test_what_an_earlier_job_left_is_deleted_by_its_uid_before_the_new_one_is_created(demo: Demo) -> None:
    demo.kubectl.companions = "v1\tConfigMap\tdemo-1a2b\tuid-7\t1\n"
    assert demo.submit("--run-id", "a")[0] == 0
    deletion, *creations = demo.kubectl.changes()
    assert deletion == "delete --raw /api/v1/namespaces/ns/configmaps/demo-1a2b --filename=-" and len(creations) == 2


def test_a_job_that_another_submit_has_just_created_is_live(demo: Demo) -> None:
    def late(call: str, _: str) -> Answer | None:
        if call.endswith("{.metadata.uid}"):
            demo.kubectl.found = LIVE
            return Answer(1, "", "Error from server (AlreadyExists): jobs demo-1a2b already exists")
        return None

    demo.kubectl.reply = late
    code, output = demo.submit("--run-id", "a")
    assert code == 1 and "demo-1a2b is live in namespace ns, started by ann@host, run z\n" in output
    assert not demo.kubectl.changes() and not demo.runs


def test_a_resume_replaces_the_ended_object_of_its_run(demo: Demo) -> None:
    assert demo.submit("--run-id", "a")[0] == 0
    demo.kubectl.found = DONE.replace("uid-9", "uid-1")
    code, output = demo.submit("--resume", "a")
    assert code == 0 and demo.record(attempt=1)["uid"] == "uid-1", output
    assert demo.record()["exit"] == "0", "how the first attempt ended"


def test_the_record_of_a_run_that_is_only_prepared_needs_no_cluster(demo: Demo) -> None:
    assert demo.submit("--only-prepare", "--run-id", "a") == (0, f"{demo.folder}/runs/demo/a\n")
    assert demo.runs == ["a"] and demo.kubectl.calls == []


def test_the_pods_of_each_attempt_get_what_submit_was_given(demo: Demo) -> None:
    odd = "it's \u00e9\n$(HOME)"
    assert demo.submit("--run-id", "a", "--env", f"A={odd}", "--", "--lr", "2")[0] == 0
    demo.kubectl.found = DONE.replace("uid-9", "uid-1")
    assert demo.submit("--resume", "a")[0] == 0
    sent = re.findall('{name: JOBC_SUBMITTED, value: "(.*)"}', "".join(demo.kubectl.created))
    values = [SubmittedValues.take({"JOBC_SUBMITTED": value}) for value in sent]
    assert values == [SubmittedValues(("--lr", "2"), {"A": odd})] * 2


def test_runs_that_end_with_their_pods_cannot_be_continued(demo: Demo) -> None:
    demo.set(storage="node")
    for words in (("--resume", "no-run"), ("--fork", "no-run")):
        code, output = demo.submit(*words)
        assert code == 65 and "there is nothing to resume" in output, output
    assert demo.submit("--resume", "a", "--new-code")[0] == 2


@pytest.mark.parametrize(("found", "code"), [(DONE, 0), ("uid-9\t\nFailed\tx\texit code 65 matching\n", 65)])
def test_wait_returns_the_exit_code_of_the_job(demo: Demo, found: str, code: int) -> None:
    def end() -> None:
        demo.kubectl.found = found.replace("uid-9", "uid-1")

    demo.kubectl.on_companions = end
    seen, output = demo.submit("--wait", "--run-id", "a")
    assert seen == code and f"\nrun a: {'done' if code == 0 else 'failed'} (exit {code}" in output, output


def test_the_code_goes_with_the_objects_the_same_files_as_the_same_bytes(demo: Demo) -> None:
    (demo.folder / "train.py").write_text("pass\n")
    demo.set(code={"kind": "snapshot", "root": ".", "max_bytes": 1 << 20, "script": "train.py"})
    for name in ("a", "b"):
        assert demo.submit("--run-id", name)[0] == 0
    first, second = (object_creation.read_packed_code(demo.folder / f"runs/demo/{name}") for name in ("a", "b"))
    assert first == second
    code_map = demo.kubectl.created[1].partition("---\n")[0]
    assert "name: demo-1a2b-code\n" in code_map and f"code.tar.gz: {base64.b64encode(first).decode()}\n" in code_map
    (demo.folder / "train.py").write_text("changed\n")
    demo.kubectl.found = DONE.replace("uid-9", "uid-1")
    code, output = demo.submit("--resume", "b")
    assert code == 0 and "--new-code" not in output and demo.kubectl.created[-1].startswith(code_map), output


def test_code_that_no_config_map_holds_is_refused_before_anything_is_sent(demo: Demo) -> None:
    (demo.folder / "weights.bin").write_bytes(os.urandom(700_000))
    demo.set(code={"kind": "snapshot", "root": ".", "max_bytes": 1 << 20, "script": ""})
    code, output = demo.submit()
    assert code == 65 and "more than the 600 KiB" in output and ".jobcignore" in output, output
    assert not demo.runs and not demo.kubectl.calls


def test_a_train_job_is_created_after_its_runtime_and_again_until_the_webhook_has_seen_that(demo: Demo) -> None:
    demo.set(creates={"object": "demo-1a2b", "kind": TRAIN_JOB, "companions": "configmap"})
    kubectl, tries = demo.kubectl, [3]
    (demo.artifact / "job.yaml").write_text(TRAIN_MANIFESTS)

    def not_yet(_: str, text: str) -> Answer | None:
        if text.startswith("kind: TrainJob") and tries[0]:
            tries[0] -= 1
            return Answer(1, "", "error: the runtime must be created before")
        return None

    kubectl.reply = not_yet
    code, output = demo.submit("--run-id", "a")
    assert code == 0 and tries == [0], output
    assert kubectl.created[-3:] == ["kind: TrainingRuntime\n", "kind: TrainJob\n", "kind: ConfigMap\n"]
    assert kubectl.changes()[-2].startswith("patch trainingruntime.trainer.kubeflow.org demo-1a2b ")


def test_a_runtime_that_another_submit_has_just_created_is_not_a_leftover(demo: Demo) -> None:
    demo.set(creates={"object": "demo-1a2b", "kind": TRAIN_JOB, "companions": "configmap"})
    (demo.artifact / "job.yaml").write_text(TRAIN_MANIFESTS)
    kubectl = demo.kubectl
    kubectl.companions = RUNTIME

    def other_submit(*_: str) -> None:
        looks = [call for call in kubectl.calls if call.startswith("get trainjob")]
        kubectl.found = LIVE if len(looks) > 2 else ""

    kubectl.reply = other_submit
    code, output = demo.submit("--run-id", "a")
    assert code == 1 and "demo-1a2b is live in namespace ns, started by ann@host, run z\n" in output
    assert not [call for call in kubectl.changes() if call.startswith("delete")], output


def test_a_runtime_that_nobody_takes_is_a_leftover_of_an_interrupted_submit(demo: Demo) -> None:
    demo.set(creates={"object": "demo-1a2b", "kind": TRAIN_JOB, "companions": "configmap"})
    (demo.artifact / "job.yaml").write_text(TRAIN_MANIFESTS)
    demo.kubectl.companions = RUNTIME
    code, output = demo.submit("--run-id", "a")
    path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainingruntimes/demo-1a2b"
    assert code == 0 and f"delete --raw {path} --filename=-" in demo.kubectl.changes(), output


def test_a_leftover_runtime_is_deleted_only_as_it_was_before_no_train_job_was_found(demo: Demo) -> None:
    """Else the server could delete a runtime whose TrainJob was created in between."""
    demo.set(creates={"object": "demo-1a2b", "kind": TRAIN_JOB, "companions": "configmap"})
    (demo.artifact / "job.yaml").write_text(TRAIN_MANIFESTS)
    demo.kubectl.companions = RUNTIME
    deletions: list[dict[str, Any]] = []

    def other_submit(call: str, text: str) -> None:
        if call.startswith("get trainjob"):
            demo.kubectl.companions = RUNTIME.replace("41", str(len(demo.kubectl.calls)))
        elif call.startswith("delete"):
            deletions.append(json.loads(text)["preconditions"])

    demo.kubectl.reply = other_submit
    assert demo.submit("--run-id", "a")[0] == 0
    calls = demo.kubectl.calls
    last_look = max(index for index, call in enumerate(calls) if call.startswith("get trainjob"))
    versions = [index for index, call in enumerate(calls) if call.startswith("get trainjob") and index < last_look]
    assert deletions == [{"uid": "uid-7", "resourceVersion": str(versions[-1])}]


@pytest.mark.parametrize("reason", ["NotFound", "Conflict"])
def test_a_train_job_whose_runtime_another_submit_has_deleted_is_taken_back(demo: Demo, reason: str) -> None:
    demo.set(creates={"object": "demo-1a2b", "kind": TRAIN_JOB, "companions": "configmap"})
    (demo.artifact / "job.yaml").write_text(TRAIN_MANIFESTS)
    refusal = Answer(1, "", f"Error from server ({reason}): x")
    demo.kubectl.reply = lambda call, _: refusal if call.startswith("patch") else None
    code, output = demo.submit("--run-id", "a")
    assert code == 1 and "another submit has deleted TrainingRuntime demo-1a2b" in output, output
    train_job, runtime = (call.split()[2].rpartition("/")[0] for call in demo.kubectl.changes()[-2:])
    assert train_job.endswith("/trainjobs") and runtime.endswith("/trainingruntimes") and not demo.runs
    assert "kind: ConfigMap\n" not in demo.kubectl.created


def test_a_runtime_that_may_not_be_patched_remains_and_says_so(demo: Demo) -> None:
    demo.set(creates={"object": "demo-1a2b", "kind": TRAIN_JOB, "companions": "configmap"})
    (demo.artifact / "job.yaml").write_text(TRAIN_MANIFESTS)
    refusal = Answer(1, "", "Error from server (Forbidden): x")
    demo.kubectl.reply = lambda call, _: refusal if call.startswith("patch") else None
    code, output = demo.submit("--run-id", "a")
    assert code == 0 and "warning: TrainingRuntime demo-1a2b will not be deleted with its TrainJob: " in output


def test_the_patch_of_a_runtime_names_its_uid(demo: Demo) -> None:
    demo.set(creates={"object": "demo-1a2b", "kind": TRAIN_JOB, "companions": "configmap"})
    (demo.artifact / "job.yaml").write_text(TRAIN_MANIFESTS)
    assert demo.submit("--run-id", "a")[0] == 0
    patch = json.loads(demo.kubectl.changes()[-2].partition("--patch=")[2])
    assert patch["metadata"]["uid"] == "uid-1" and patch["metadata"]["ownerReferences"][0]["uid"] == "uid-1"


def test_documents_are_cut_at_lines_of_their_own() -> None:
    config_map, others = object_creation.split_by_kind(MANIFESTS, "ConfigMap")
    assert config_map + "---\n" + others == MANIFESTS and "# ends in ---\n" in config_map
