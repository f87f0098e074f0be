"""The pod runner does what Kubernetes v1.36.2 was seen to do: each case that it models is a test in this folder.

Pods run a few lines of bash or Python; times are shorter than on a cluster, orders and results are the same.
"""

from __future__ import annotations

import time

import pytest

from jobc.tests.testbed import wait_for

from . import PodRunner
from .controller import has
from .job_run import RULES, Run
from .runner import NAMESPACE

ENGINE = pytest.mark.engine

SAVES = (
    "import signal,sys,time; signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), sys.exit(75)));"
    "print('up', flush=True); time.sleep(60)"
)


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
@pytest.mark.parametrize(("policy", "resolved"), [({}, "none"), ({"dnsPolicy": "ClusterFirstWithHostNet"}, "found")])
def test_with_the_hosts_network_alone_no_name_of_the_cluster_resolves(
    run: Run, policy: dict[str, str], resolved: str
) -> None:
    script = "sleep 1; getent hosts ${HOSTNAME%-*} >/dev/null && echo found || echo none"
    job = run("bash", "-c", script, pod={"hostNetwork": True, **policy})
    job.wait("Complete")
    assert job.logs() == [f"{resolved}\n"]


@ENGINE
def test_without_a_subdomain_there_is_no_name(run: Run) -> None:
    script = "sleep 1; getent hosts $(hostname).SVC || echo none"
    job = run("bash", "-c", script, pod={"subdomain": "other"})
    job.wait("Complete")
    assert "none" in job.logs()[0]


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

    def is_up() -> bool:
        """Return whether the program of a running pod has installed its signal handler."""
        pods = [pod for pod in job.pods("Running") if "deletionTimestamp" not in pod["metadata"]]
        return any("up" in job.runner.log(pod) for pod in pods)

    wait_for(is_up, "the pod")
    job.runner.evict(job.pods()[0]["metadata"]["name"])
    wait_for(is_up, "another pod")
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


# ---- 12: Pending


@ENGINE
def test_gpus_that_no_node_has_leave_the_pod_pending(run: Run) -> None:
    job = run("true", container={"resources": {"limits": {"nvidia.com/gpu": "8"}}})
    wait_for(lambda: bool(job.pods() and job.pods()[0]["status"].get("conditions")), "a reason")
    (reason,) = job.pods()[0]["status"]["conditions"]
    assert reason["reason"] == "Unschedulable" and "Insufficient nvidia.com/gpu" in reason["message"]
