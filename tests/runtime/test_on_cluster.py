"""Backend kubernetes: submit, preflight, smoke and reading the storage, against a stand-in for kubectl.

No program is started. Behavior that only real pods show is tested in tests/backends/test_on_pods.py.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobc.backends.kubernetes.engine import cluster, object_creation, run_trial, storage_pod
from jobc.backends.kubernetes.engine.kubernetes_engine import KubernetesEngine
from jobc.runtime.engines.artifact_location import Place
from jobc.runtime.engines.engine import Answer
from jobc.runtime.run_folder.run import Run
from jobc.runtime.run_folder.submitted_values import SubmittedValues
from jobc.runtime.system.command_line import run_verb_until_ended
from jobc.runtime.system.failure import Failure
from jobc.runtime.system.values import read_keys
from jobc.runtime.verbs import preflight, shell, smoke, submit

KIND, TRAIN_JOB = "job.batch", "trainjob.trainer.kubeflow.org"
CREATES = {"object": "demo-1a2b", "kind": KIND, "companions": "configmap,service"}
MANIFESTS = """\
apiVersion: v1
data:
  launch.sh: |
    # ends in ---
    export JOBC_NODE_LIST='demo-1a2b-[0-1]'
kind: ConfigMap
metadata:
  name: demo-1a2b
---
apiVersion: batch/v1
kind: Job
metadata:
  annotations:
    jobc/owner: ""
  name: demo-1a2b
spec:
  env:
  - name: JOBC_JOB_UID
    value: none
"""
LONE_POD = json.dumps(
    {
        "kind": "Pod",
        "metadata": {"name": "demo-1a2b-shell"},
        "spec": {"volumes": [{"name": "files", "configMap": {"name": "demo-1a2b"}}]},
    }
)
SHELL = "demo-1a2b-shell-0a0b0c"
RUNTIME = "trainer.kubeflow.org/v1alpha1\tTrainingRuntime\tdemo-1a2b\tuid-7\t41\n"
TRAIN_MANIFESTS = "kind: TrainingRuntime\n---\nkind: TrainJob\n---\nkind: ConfigMap\n"
LIVE = "uid-9\tann@host, run z\tbatch/v1\tJob\tdemo-1a2b\n"
DONE = f"{LIVE}Complete\tx\ty\n"
API = "delete --raw /apis/batch/v1/namespaces/ns/jobs"


def named(text: str) -> str:
    """The text with the same name for each pod beside the job."""
    return re.sub(r"(?<=-shell-)[0-9a-f]{6}\b", "0a0b0c", text)


class Kubectl:
    """Stands in for kubectl; calls: its words without namespace and context, as one text each."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.created: list[str] = []  # manifests
        self.found = ""  # the object, as Cluster.find_object() asks for it
        self.companions = ""  # kinds beside the object, with their uids
        self.made = ""  # the object after it was created
        self.refusal, self.phase, self.codes, self.log = "", "Running", "", ""
        self.on_companions: Callable[[], None] = lambda: None
        self.reply: Callable[[str, str], Answer | None] = lambda call, text: None  # instead of what follows here

    def ask(self, _: KubernetesEngine, words: list[str], text: str = "", **__: object) -> Answer:
        place = ("--namespace=", "--context=") if words[1] != "config" else ()
        call = named(" ".join(word for word in words[1:] if not word.startswith(place)))
        if answer := self.reply(call, text):
            return answer
        self.calls.append(call)
        if call.startswith("create"):
            if self.refusal and self.refusal in text:
                return Answer(1, "", f"error: {self.refusal} is refused\n")
            if "--dry-run=server" not in call:
                self.created.append(named(text))
                self.found = self.made if call.endswith("{.metadata.uid}") else self.found
            if call == "create --filename=-" and "ownerReferences" in text:
                self.on_companions()
        if call.startswith(f"{API}/"):
            self.found = ""
        return Answer(0, self._answer(call), "")

    def _answer(self, call: str) -> str:
        if call.startswith("config view"):
            return "own"
        if call.startswith("get pod "):
            return json.dumps({"status": {"phase": self.phase}})
        if call.startswith(("get job.batch", "get trainjob")):
            return self.found
        if call.startswith("get configmap"):
            return self.companions if "=demo-1a2b " in call else ""
        if call.endswith("{.metadata.uid}"):
            return "uid-1"
        return {"logs": self.log, "exec": self.codes}.get(call.split()[0], "")

    def changes(self) -> list[str]:
        """The calls that change something."""
        return [call for call in self.calls if call.startswith(("create", "delete", "patch")) and "dry-run" not in call]


class Demo:
    """An artifact of job demo, with two nodes."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys, self.kubectl = folder, capsys, Kubectl()
        self.artifact = folder / "artifacts/demo/kubernetes"
        (self.artifact / ".jobc").mkdir(parents=True)
        (self.artifact / "job.yaml").write_text(MANIFESTS)
        self.set()

        def kubectl_ask(engine: KubernetesEngine, words: list[str], **more: Any) -> Answer:
            return self.kubectl.ask(engine, words, **more)  # a test may replace it

        monkeypatch.setattr(sys, "argv", [str(self.artifact / "jobctl")])
        monkeypatch.setattr(Place, "engine", lambda place: KubernetesEngine(place.job))
        monkeypatch.setattr(KubernetesEngine, "ask", kubectl_ask)
        monkeypatch.setattr(cluster.shutil, "which", lambda _: "/bin/kubectl")
        for module in (cluster, object_creation, storage_pod, run_trial):
            monkeypatch.setattr(module.time, "sleep", lambda _: None)
        monkeypatch.setenv("USER", "ann b")
        monkeypatch.delenv("JOBC_RUN_ROOT", raising=False)

    def set(self, **settings: Any) -> None:
        tree = {
            "job": "demo", "runs": "runs", "backend": "kubernetes", "nodes": 2, "storage": "shared",
            "storage_root": "/shared/runs", "context": None, "namespace": "ns", "creates": CREATES,
            "kinds": [KIND, TRAIN_JOB], "companions": [CREATES["companions"], "configmap"], "start_timeout_s": 3,
            "place": "demo/kubernetes", "identity": [], "spec": [], "lone_pod": LONE_POD,
        }  # fmt: skip
        (self.artifact / ".jobc/job.json").write_text(json.dumps({**tree, **settings}))

    def __call__(self, verb: Any, *words: str) -> tuple[int, str]:
        """Run a verb. Return its exit code and output."""
        code = run_verb_until_ended(verb.main, [*words])
        printed = self.capsys.readouterr()
        return code, printed.out + printed.err

    def submit(self, *words: str) -> tuple[int, str]:
        return self(submit, *words)

    @property
    def runs(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "runs/demo").glob("*"))

    def record(self, run: str = "a", attempt: int = 0) -> dict[str, str]:
        return read_keys(self.folder / f"runs/demo/{run}/state/job_{attempt}")


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Demo]:
    made = Demo(tmp_path, monkeypatch, capsys)
    yield made
    for folder in tmp_path.glob("runs/demo/*/artifact/*"):
        folder.chmod(0o755)


# ---- submit


def test_submit_creates_the_objects_and_records_them(demo: Demo) -> None:
    code, output = demo.submit("--run-id", "a")
    assert code == 0 and output.startswith("run a: job.batch demo-1a2b in namespace ns\n  follow: "), output
    assert demo.record() == {"uid": "uid-1", **CREATES, "nodes": "2", "context": "", "namespace": "ns"} | {
        "exit": "", "reason": ""
    }  # fmt: skip
    job, companions = demo.kubectl.created
    variables = [{"name": "JOBC_PAYLOAD", "value": "train"}, {"name": "JOBC_RUN_ID", "value": "a"}]
    assert yaml.safe_load(job)["spec"]["env"] == [*variables, {"name": "JOBC_JOB_UID", "value": "none"}]
    assert re.search(r"^    jobc/owner: annb@[\w.-]+, run a$", job, re.MULTILINE)
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


# ---- checks and a shell


def log(*lines: str) -> str:
    return "".join(f"[pod/demo-1a2b-smoke-{line[0]}-x7z/node] {line[3:]}\n" for line in lines)


@pytest.mark.parametrize("last", ["0", "71"])
def test_smoke_prints_what_each_pod_does_and_removes_them(demo: Demo, last: str) -> None:
    demo.kubectl.made = DONE
    exits = ("jobc: payload exit code: 0", f"jobc: payload exit code: {last}")
    demo.kubectl.log = log("1: all-reduce", f"1: {exits[1]}", "0: all-reduce", f"0: {exits[0]}")
    assert demo(smoke) == (int(last != "0"), "0: all-reduce\n1: all-reduce\n")
    manifests = "".join(demo.kubectl.created)
    assert 'value: "smoke"}\n' in manifests and "name: demo-1a2b-smoke\n" in manifests
    assert "JOBC_NODE_LIST='demo-1a2b-smoke-[0-1]'" in manifests
    assert demo.kubectl.changes()[-1] == f"{API}/demo-1a2b --filename=-"


def test_pods_that_do_not_end_are_removed_too(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.kubectl.made = LIVE
    monkeypatch.setattr(run_trial, "LONGER_S", -3)
    code, output = demo(smoke)
    assert code == 1 and "error: the pods have not ended after 0 s\n" in output
    assert demo.kubectl.changes()[-1] == f"{API}/demo-1a2b --filename=-"


def test_preflight_makes_a_table_of_what_the_pods_found(demo: Demo) -> None:
    demo.kubectl.made = DONE
    lines = ["0: ok\tdisk\tenough", "0: end", "1: ok\tdisk\tenough", "1: jobc: waiting", "1: end"]
    exits = [f"{node}: jobc: payload exit code: 0" for node in (0, 1)]
    demo.kubectl.log = log(*lines, *exits)
    code, output = demo(preflight)
    assert code == 0 and output.startswith("ok    the cluster accepts the job in namespace ns\n"), output
    assert "ready: 2 nodes" in output and "waiting" not in output
    demo.kubectl.log = log(*lines, exits[0])
    assert demo(preflight)[0] == 1, "a pod did not say how it ended"


def test_a_shell_without_a_live_run_is_in_a_pod_of_its_own(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    module = sys.modules[KubernetesEngine.__module__]
    monkeypatch.setattr(module, "run_attached_to_terminal", lambda words: started.append(named(" ".join(words))) or 3)
    assert demo(shell, "--node", "1", "--", "true", "--all")[0] == 3
    program = "python3 -I -S /jobc/files/start.py"
    command = f"kubectl --namespace=ns exec --stdin {SHELL} --container=node -- {program} shell true --all"
    assert started == [command]
    assert demo.kubectl.changes()[-1] == f"delete --raw /api/v1/namespaces/ns/pods/{SHELL} --filename=-"
    assert demo(shell, "--node", "2")[0] == 2


def test_the_pod_of_a_shell_and_its_config_map_have_names_of_their_own(
    demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[KubernetesEngine.__module__], "run_attached_to_terminal", lambda words: 0)
    assert demo(shell)[0] == 0
    pod, config_map = demo.kubectl.created
    assert json.loads(pod)["metadata"] == {"name": SHELL, "labels": {"jobc/shell": "demo-1a2b"}}
    assert json.loads(pod)["spec"]["volumes"] == [{"name": "files", "configMap": {"name": SHELL}}]
    assert f"  name: {SHELL}\n" in config_map and "JOBC_NODE_LIST='demo-1a2b-[0-1]'" in config_map
    owner = {"apiVersion": "v1", "kind": "Pod", "name": SHELL, "uid": "uid-1"}
    assert f"ownerReferences: [{json.dumps(owner)}]" in config_map


# ---- the storage of the runs


def sent(demo: Demo, *names: str) -> tuple[KubernetesEngine, list[Run]]:
    runs = []
    for name in names:
        assert demo.submit("--run-id", name)[0] == 0
        runs.append(Run(demo.folder / "runs/demo" / name))
    demo.kubectl.calls.clear()
    engine = Place(demo.artifact).engine()
    assert isinstance(engine, KubernetesEngine)
    return engine, runs


def test_runs_are_removed_through_one_pod(demo: Demo) -> None:
    engine, runs = sent(demo, "a", "b")
    assert [engine.remove_outside_run_folder(run) for run in runs] == [True, True]
    removals = [call for call in demo.kubectl.calls if call.startswith("exec")]
    assert removals == [f"exec {SHELL} --container=node -- rm -rf -- /shared/runs/demo/{name}" for name in "ab"]
    assert sum('"kind": "Pod"' in text and "metadata:" not in text for text in demo.kubectl.created) == 1
    engine.close()
    assert demo.kubectl.calls[-1] == f"delete --raw /api/v1/namespaces/ns/pods/{SHELL} --filename=-"


def test_a_run_stays_if_no_pod_starts_which_is_waited_for_once(demo: Demo) -> None:
    engine, runs = sent(demo, "a", "b")
    demo.kubectl.phase = "Pending"
    assert [engine.remove_outside_run_folder(run) for run in runs] == [False, False]
    assert sum(call.startswith("get pod ") for call in demo.kubectl.calls) == 4
    assert f"pod {SHELL} has not started" in named(demo.capsys.readouterr().err)


def test_a_run_in_a_bucket_is_removed_by_a_pod(demo: Demo) -> None:
    demo.set(storage="object")
    engine, runs = sent(demo, "a")
    assert engine.remove_outside_run_folder(runs[0])
    program = "python3 -I -S /jobc/files/start.py"
    command = f"exec {SHELL} --container=node -- env JOBC_RUN_ID=a {program} bucket remove"
    assert command in demo.kubectl.calls


@pytest.mark.parametrize(("codes", "text"), [("0\n65\n", "failed (exit 65"), ("0\n", "it was deleted by hand")])
def test_how_a_run_ended_whose_object_is_gone_is_on_its_storage(demo: Demo, codes: str, text: str) -> None:
    engine, runs = sent(demo, "a")
    demo.kubectl.codes = codes
    assert "it was deleted by hand" in engine.state(runs[0]).text
    engine.fetch("state", runs)
    assert not demo.kubectl.changes()
    engine.fetch("news", runs)
    assert text in engine.state(runs[0]).text
