"""The pod runner does what Kubernetes v1.36.2 was seen to do: each case that it models is a test here.

Pods run a few lines of bash or Python; times are shorter than on a cluster, orders and results are the same.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobc.tests.testbed import Cluster, wait_for

from . import KUBECTL, PodRunner
from .controller import has
from .environment import expand, variables
from .runner import NAMESPACE
from .schema import invalid, problem
from .store import Object

ENGINE = pytest.mark.engine
_numbers = itertools.count()

SAVES = (
    "import signal,sys,time; signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), sys.exit(75))); time.sleep(60)"
)


@pytest.fixture(scope="module")
def runner(cluster: Cluster) -> Iterator[PodRunner]:
    with PodRunner(cluster) as runner:
        yield runner


Run = Callable[..., "JobRun"]


class JobRun:
    """A Job of the runner, and a Service of the same name."""

    def __init__(self, runner: PodRunner, job: Object) -> None:
        self.runner, self.job, self.name = runner, job, job["metadata"]["name"]

    def pods(self, phase: str = "") -> list[Object]:
        found = [pod for pod in self.runner.pods(phase) if pod["metadata"]["labels"].get("job-name") == self.name]
        return sorted(found, key=lambda pod: pod["metadata"]["name"])

    def wait(self, kind: str) -> Object:
        """Until the Job has that condition."""
        wait_for(lambda: has(self.job, kind), f"{kind} of {self.name}", 60)
        return next(c for c in self.job["status"]["conditions"] if c["type"] == kind)

    def logs(self) -> list[str]:
        return [self.runner.log(pod) for pod in self.pods()]

    def codes(self) -> list[int]:
        return [pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] for pod in self.pods()]


@pytest.fixture
def run(runner: PodRunner) -> Iterator[Run]:
    made: list[JobRun] = []

    def run(
        *command: str, pods: int = 1, not_ready: bool = True, spec: Any = (), pod: Any = (), container: Any = ()
    ) -> JobRun:
        name = f"j{next(_numbers)}"
        node = {"name": "c", "image": "x", "command": list(command), **dict(container)}
        template = {"subdomain": name, "restartPolicy": "Never", "containers": [node], **dict(pod)}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "completionMode": "Indexed",
                "completions": pods,
                "parallelism": pods,
                "template": {"metadata": {"labels": {"app": name}}, "spec": template},
                **dict(spec),
            },
        }
        assert not problem(job) and not invalid(job)
        with runner.store.changed:
            headless = {"clusterIP": "None", "publishNotReadyAddresses": not_ready, "selector": {"app": name}}
            item = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": headless}
            runner.store.add("services", item)
            runner.store.add("jobs", job)
        made.append(JobRun(runner, job))
        return made[-1]

    yield run
    for each in made:
        with runner.store.changed:
            each.job["metadata"]["deletionTimestamp"] = "now"
            for pod in each.pods():
                pod["metadata"]["grace"] = 0
    for each in made:
        wait_for(lambda each=each: not each.pods(), "no pods", 60)


# ---- 1: identity and names


@ENGINE
def test_a_pod_knows_its_index_and_its_name(run: Run) -> None:
    script = 'hostname; echo "$HOSTNAME $JOB_COMPLETION_INDEX $LAB $ANN"; getent hosts "$(hostname)" | cut -d " " -f 2-'
    path = "batch.kubernetes.io/job-completion-index"
    env = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.{kind}['{path}']"}}}
        for name, kind in (("LAB", "labels"), ("ANN", "annotations"))
    ]
    job = run("bash", "-c", script, pods=2, container={"env": env})
    job.wait("Complete")
    for index, log in enumerate(job.logs()):
        host = f"{job.name}-{index}"
        assert log.split("\n")[:2] == [host, f"{host} {index} {index} {index}"]
        assert f"{host}.{job.name}.{NAMESPACE}.svc.cluster.local" in log
        assert job.pods()[index]["metadata"]["name"].startswith(f"{host}-")


@ENGINE
@pytest.mark.parametrize("published", [True, False])
def test_a_pod_that_is_not_ready_has_a_name_where_the_service_says_so(run: Run, published: bool) -> None:
    """It is not while its init containers run."""
    look = (
        'for i in {1..20}; do getent hosts "$(hostname).${HOSTNAME%-*}" >/dev/null && echo yes && exit; sleep 0.1; done'
    )
    first = {"name": "first", "image": "x", "command": ["bash", "-c", f"{look}; echo no"]}
    job = run("bash", "-c", look, not_ready=published, pod={"initContainers": [first]})
    job.wait("Complete")
    (pod,) = job.pods()
    assert job.runner.log(pod, "first") == ("yes\n" if published else "no\n") and job.runner.log(pod) == "yes\n"


@ENGINE
def test_who_resolves_what(run: Run) -> None:
    """The table of names: a peer by its short name soon, never by its bare name, never below a wrong subdomain."""
    script = """
    S=${HOSTNAME%-*}
    seen() {
      for ((i = 0; i < 30; i++)); do
        if getent hosts "$1" >/dev/null; then echo "$1 yes"; return; fi
        sleep 0.1
      done
      echo "$1 no"
    }
    getent hosts "$S-0.$S" >/dev/null && echo at once || echo not at once
    for name in $S-0.$S $S-1.$S $S-0.$S.testbed.svc.cluster.local $S-0 $S $S-0.wrong; do seen $name; done
    sleep 2
    """
    job = run("bash", "-c", script, pods=2)
    job.wait("Complete")
    s = job.name
    zero, one = ([line.removeprefix(s) for line in log.splitlines()] for log in job.logs())
    both = ["-0.%s yes", "-1.%s yes", "-0.%s.testbed.svc.cluster.local yes"]
    expected = [*(text % s for text in both), "-0 yes", " yes", "-0.wrong no"]
    assert zero[1:] == expected
    assert one[1:] == [*expected[:3], "-0 no", *expected[4:]]


@ENGINE
def test_without_a_subdomain_there_is_no_name(run: Run) -> None:
    script = "sleep 1; getent hosts $(hostname).SVC || echo none"
    job = run("bash", "-c", script, pod={"subdomain": "other"})
    job.wait("Complete")
    assert "none" in job.logs()[0]


# ---- 2: $(VAR)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "base"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$base"),
        ("$$$$(A)", "$$(A)"),
        ("$(NOPE)", "$(NOPE)"),
        ("$(A", "$(A"),
        ("$A ${A}", "$A ${A}"),
        ("echo pid=$$", "echo pid=$"),
        ("$((A+2)) $(echo x)", "$((A+2)) $(echo x)"),
    ],
)
def test_a_variable_is_replaced_as_kubernetes_does(text: str, expected: str) -> None:
    assert expand(text, {"A": "base"}) == expected


def test_a_value_names_earlier_variables_only_and_the_index_comes_last() -> None:
    texts = {"A": "base", "B": "$(A)/b", "C": "$(LATER)", "LATER": "x", "D": "r$(JOB_COMPLETION_INDEX)", "S": "$(S):x"}
    env = [{"name": name, "value": value} for name, value in texts.items()]
    pod = {"metadata": {"labels": {"batch.kubernetes.io/job-completion-index": "3"}}}
    found = variables(pod, {"env": env}, {})
    assert found["B"] == "base/b" and found["C"] == "$(LATER)"
    assert found["D"] == "r$(JOB_COMPLETION_INDEX)" and found["S"] == "$(S):x"
    assert list(found)[-1] == "JOB_COMPLETION_INDEX"


# ---- 3, 4: what the server refuses


def job_of(**spec: Any) -> Object:
    container = {"name": "c", "image": "x"}
    pod = {"restartPolicy": "Never", "containers": [container], **spec.pop("pod", {})}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": spec.pop("name", "j")},
            "spec": {"completionMode": "Indexed", "completions": 2, "template": {"spec": pod}, **spec}}  # fmt: skip


def policy(**rule: Any) -> Object:
    return {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", **rule}}]}}


@pytest.mark.parametrize(
    "item",
    [
        job_of(backofLimit=1),
        job_of(completionMode="indexed"),
        job_of(completions="2"),
        job_of(name="my_job"),
        job_of(name="a" * 62),
        job_of(pod={"restartPolicy": "Always"}),
        job_of(pod={"restartPolicy": "OnFailure"}, **policy(values=[65])),
        job_of(**policy(values=[75, 69])),
        job_of(**policy(values=[0])),
        job_of(pod={"containers": [{"name": "c", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}),
        job_of(pod={"containers": [{"name": "c", "image": "x", "env": [{"name": "A", "value": 1}]}]}),
        {**job_of(), "kind": "Jobb"},
        {**job_of(), "apiVersion": "batch/v1beta1"},
    ],
)
def test_what_the_server_refuses(item: Object) -> None:
    assert not problem(job_of()) and not invalid(job_of())
    assert problem(item) or invalid(item)


@ENGINE
def test_kubectl_is_told_so_also_by_a_dry_run_which_leaves_nothing(runner: PodRunner, tmp_path: Path) -> None:
    def create(item: Object, *words: str) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "job.json"
        file.write_text(json.dumps(item))
        command = [KUBECTL, "create", *words, f"--filename={file}"]
        environment = {**os.environ, "KUBECONFIG": str(runner.kubeconfig)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    done = create(job_of(name="dry", backofLimit=1), "--dry-run=server")
    assert done.returncode and "backofLimit" in done.stderr
    assert create(job_of(name="dry", suspend=True), "--dry-run=server").returncode == 0
    assert not list(runner.store.all("jobs"))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}
    assert create(secret).returncode == 0
    assert "AlreadyExists" in create(secret).stderr


# ---- 5: SIGTERM


@ENGINE
@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("python", "-c", SAVES), 75),
        (("bash", "-c", f'cd /tmp && exec python -c "{SAVES}"'), 75),
        (("bash", "-c", f'python -c "{SAVES}"; echo $?'), 137),
        (("python", "-c", "import time; time.sleep(60)"), 137),
        (("bash", "-c", f'python -c "{SAVES}" & c=$!; trap "kill -TERM $c" TERM; wait $c; wait $c'), 75),
    ],
    ids=["argv", "exec", "bash stays", "no handler", "trap"],
)
def test_pid_1_gets_sigterm_and_nobody_else(run: Run, command: tuple[str, ...], code: int) -> None:
    job = run(*command, spec={"activeDeadlineSeconds": 3, "backoffLimit": 0}, pod={"terminationGracePeriodSeconds": 3})
    wait_for(lambda: bool(job.pods("Running")), "the pod")
    (pod,) = job.pods()
    assert job.wait("Failed")["reason"] == "DeadlineExceeded"
    state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert state["exitCode"] == code


# ---- 6: failure, and what happens to the others

RULES = {"podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": [
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "NotIn", "values": [69, 75]}},
]}}  # fmt: skip


def index_1_exits(code: int) -> tuple[str, ...]:
    return (
        "bash",
        "-c",
        f'if [[ $JOB_COMPLETION_INDEX == 1 ]]; then sleep 0.5; exit {code}; fi; exec python -c "{SAVES}"',
    )


@ENGINE
def test_a_code_of_the_policy_fails_the_job_and_deletes_the_pods_that_run(run: Run) -> None:
    job = run(*index_1_exits(65), pods=2, spec={"backoffLimit": 3, **RULES})
    failed = job.wait("Failed")
    assert failed["reason"] == "PodFailurePolicy"
    assert "failed with exit code 65 matching FailJob rule at index 1" in failed["message"]
    wait_for(lambda: len(job.pods()) == 1, "one pod left")
    assert job.codes() == [65]


@ENGINE
def test_the_backoff_limit_counts_pods(run: Run) -> None:
    job = run("bash", "-c", "sleep 0.3; exit 69", pods=2, spec={"backoffLimit": 2, **RULES})
    assert job.wait("Failed")["reason"] == "BackoffLimitExceeded"
    assert job.job["status"]["failed"] in (3, 4), "two pods of the first start, then the third is one too many"


@ENGINE
def test_only_the_failed_index_is_replaced_and_others_run_on(run: Run) -> None:
    job = run(*index_1_exits(75), pods=2, spec={"backoffLimit": 1, **RULES})
    wait_for(lambda: len(job.pods("Failed")) == 1 and len(job.pods()) == 3, "a second pod of index 1")
    assert job.pods("Running")[0]["metadata"]["name"].startswith(f"{job.name}-0-")
    assert job.wait("Failed")["reason"] == "BackoffLimitExceeded"


@ENGINE
def test_an_eviction_is_ignored_and_a_plain_deletion_counts(run: Run) -> None:
    job = run("python", "-c", SAVES, spec={"backoffLimit": 0, **RULES})
    wait_for(lambda: len(job.pods("Running")) == 1, "the pod")
    job.runner.evict(job.pods()[0]["metadata"]["name"])
    wait_for(lambda: any("deletionTimestamp" not in pod["metadata"] for pod in job.pods("Running")), "another pod")
    assert not has(job.job, "FailureTarget") and not job.job["status"]["failed"]
    with job.runner.store.changed:
        job.pods("Running")[-1]["metadata"]["deletionTimestamp"] = "now"
    assert job.wait("Failed")["reason"] == "BackoffLimitExceeded"


@ENGINE
def test_an_index_that_succeeded_is_not_started_again(run: Run) -> None:
    script = "if [[ $JOB_COMPLETION_INDEX == 0 ]]; then exit 0; fi; sleep 1; exit 69"
    job = run("bash", "-c", script, pods=2, spec={"backoffLimit": 1, **RULES})
    job.wait("Failed")
    assert sorted(job.codes()) == [0, 69, 69]


# ---- 9, 10: volumes


@ENGINE
def test_a_config_map_is_read_only_and_its_files_are_not_executable(run: Run, runner: PodRunner) -> None:
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"run.sh": "echo $0\n"}}
    with runner.store.changed:
        runner.store.add("configmaps", data)
    pod = {"volumes": [{"name": "v", "configMap": {"name": "cm"}}]}
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/s"}]}
    script = "bash /s/run.sh; readlink /s/run.sh; stat -L -c %a /s/run.sh; ls -A /s | wc -l; touch /s/x"
    job = run("bash", "-c", f"{script} || exit 0", pod=pod, container=mount)
    job.wait("Complete")
    assert job.logs()[0].split()[:4] == ["/s/run.sh", "..data/run.sh", "644", "3"]
    assert "Read-only file system" in job.logs()[0]
    failed = run("/s/run.sh", pod=pod, container=mount, spec={"backoffLimit": 0})
    failed.wait("Failed")
    assert failed.codes() == [128]


@ENGINE
def test_a_missing_config_map_leaves_the_pod_pending(run: Run) -> None:
    pod = {"volumes": [{"name": "v", "configMap": {"name": "nope"}}]}
    job = run("true", pod=pod, container={"volumeMounts": [{"name": "v", "mountPath": "/s"}]}, spec={"backoffLimit": 0})
    time.sleep(1)
    (pending,) = job.pods("Pending")
    waiting = pending["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {"reason": "CreateContainerConfigError", "message": 'configmap "nope" not found'}
    assert not has(job.job, "Failed")


@ENGINE
def test_shared_memory_is_64_mib_or_what_the_volume_says(run: Run) -> None:
    script = "df -m --output=size /dev/shm | tail -n 1; head -c 30M /dev/zero >/dev/shm/x 2>&1 || echo full"
    plain = run("bash", "-c", script)
    volume = {"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "20Mi"}}]}
    small = run(
        "bash", "-c", script, pod=volume, container={"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}
    )
    plain.wait("Complete")
    small.wait("Complete")
    assert plain.logs()[0].split() == ["64"]
    assert small.logs()[0].split()[0] == "20" and small.logs()[0].split()[-1] == "full"


# ---- 15: init containers, sidecars, and a second container


def bash(name: str, script: str, **more: Any) -> Object:
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    return {"name": name, "image": "x", "command": ["bash", "-c", script], **mount, **more}


VOLUME = {"volumes": [{"name": "v", "emptyDir": {}}]}
SAYS = 'say() { echo "$*" >>/v/said; }; trap "say end of $0; exit 9" TERM; say $0; sleep 60 & wait'


@ENGINE
def test_init_containers_run_one_after_another_and_a_sidecar_from_its_place_to_the_end(run: Run) -> None:
    init = [
        bash("first", "sleep 0.3; echo first $JOB_COMPLETION_INDEX >>/v/said"),
        {**bash("one", ""), "command": ["bash", "-c", SAYS, "one"], "restartPolicy": "Always"},
        bash("second", "until grep -q one /v/said; do sleep 0.1; done; echo second >>/v/said"),
        {**bash("two", ""), "command": ["bash", "-c", SAYS, "two"], "restartPolicy": "Always"},
        bash("short", "echo short; exit 3", restartPolicy="Always"),
    ]
    last = "sleep 2; echo main >>/v/said"
    job = run("bash", "-c", last, pod={**VOLUME, "initContainers": init, "containers": [bash("c", last)]})
    job.wait("Complete")
    (pod,) = job.pods()
    folder = job.runner.log_file(pod).parents[1]  # type: ignore[union-attr]
    said = (folder / "volumes" / "v" / "said").read_text().splitlines()
    assert said == ["first 0", "one", "second", "two", "main", "end of two", "end of one"]
    states = {each["name"]: each for each in pod["status"]["initContainerStatuses"]}
    assert states["one"]["state"]["terminated"]["exitCode"] == 9, "which does not matter"
    assert states["short"]["restartCount"] >= 1, "a sidecar that ends is started again"


@ENGINE
def test_an_init_container_that_fails_fails_the_pod_and_a_rule_for_another_does_not_see_it(run: Run) -> None:
    side = {**bash("side", ""), "command": ["bash", "-c", SAYS, "side"], "restartPolicy": "Always"}
    pod = {**VOLUME, "initContainers": [side, bash("wait", "echo told; exit 65")]}
    job = run("true", pod=pod, spec={"backoffLimit": 1, **RULES})
    assert job.wait("Failed")["reason"] == "BackoffLimitExceeded"
    for each in job.pods():
        assert each["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
        assert job.runner.log(each, "wait") == "told\n" and not job.runner.log(each)
    assert len(job.pods("Failed")) == 2
    rule = {"action": "FailJob", "onExitCodes": {"containerName": "wait", "operator": "In", "values": [65]}}
    job = run("true", pod=pod, spec={"backoffLimit": 3, "podFailurePolicy": {"rules": [rule]}})
    assert "Container wait" in job.wait("Failed")["message"]


@ENGINE
def test_a_pod_that_is_deleted_ends_its_sidecar_last_and_all_within_its_grace(run: Run) -> None:
    side = {**bash("side", ""), "command": ["bash", "-c", SAYS, "side"], "restartPolicy": "Always"}
    main = {**bash("c", ""), "command": ["bash", "-c", SAYS.replace("exit 9", "sleep 1; say gone; exit 9"), "main"]}
    pod = {**VOLUME, "initContainers": [side], "containers": [main], "terminationGracePeriodSeconds": 4}
    job = run("x", pod=pod, spec={"activeDeadlineSeconds": 2, "backoffLimit": 0})
    wait_for(lambda: bool(job.pods("Running")), "the pod")
    (made,) = job.pods()
    folder = job.runner.log_file(made).parents[1]  # type: ignore[union-attr]
    job.wait("Failed")
    said = (folder / "volumes" / "v" / "said").read_text().splitlines()
    assert said == ["side", "main", "end of main", "gone", "end of side"]


@ENGINE
def test_a_pod_of_two_containers_ends_with_the_last_and_fails_with_any(run: Run) -> None:
    pod = {**VOLUME, "containers": [bash("c", "exit 0"), bash("d", "sleep 1; echo late; exit 4")]}
    job = run("x", pod=pod, spec={"backoffLimit": 0})
    job.wait("Failed")
    (made,) = job.pods()
    assert job.runner.log(made, "d") == "late\n"
    codes = [each["state"]["terminated"]["exitCode"] for each in made["status"]["containerStatuses"]]
    assert codes == [0, 4]


# ---- 12: Pending


@ENGINE
def test_gpus_that_no_node_has_leave_the_pod_pending(run: Run) -> None:
    job = run("true", container={"resources": {"limits": {"nvidia.com/gpu": "8"}}})
    wait_for(lambda: bool(job.pods() and job.pods()[0]["status"].get("conditions")), "a reason")
    (reason,) = job.pods()[0]["status"]["conditions"]
    assert reason["reason"] == "Unschedulable" and "Insufficient nvidia.com/gpu" in reason["message"]
