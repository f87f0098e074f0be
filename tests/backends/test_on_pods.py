"""Backend kubernetes on the pod runner: the conformance suite, and what happens when pods fail, vanish or are stopped.

jobctl calls a real kubectl and runs on this machine, which sees the storage of the pods only in the suite.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.sweeps import compile_sweep, group_points_into_folders
from jobc.compiler.pipeline.types import CompileRequest
from jobc.compiler.testing.suite import BackendSuite
from jobc.tests.backends.pods import BASE, PLAIN, Job, Rack
from jobc.tests.podrunner import KUBECTL, PodRunner
from jobc.tests.testbed import Cluster, wait_for

pytestmark = pytest.mark.engine

FLAVORS = ("jobset", "trainjob")


@pytest.fixture(scope="module")
def runner(cluster: Cluster) -> Iterator[PodRunner]:
    with PodRunner(cluster) as runner:
        yield runner


class TestKubernetes(BackendSuite):
    backend = "kubernetes"
    golden = Path(__file__).parents[1] / "golden" / "kubernetes"
    overrides: ClassVar = BASE[1:]
    queued: ClassVar = ("gpus=8",)  # no host of the test bed has as many

    @pytest.fixture(autouse=True)
    def _runner(self, runner: PodRunner) -> None:
        self.runner = runner

    def environment(self, project: Path) -> dict[str, str]:
        """The claim is the project's folder, so that the suite finds the runs. project: that, or an artifact in it"""
        inside = [folder for folder in project.parents if folder.name == "artifacts"]
        self.runner.claims["shared"] = inside[0].parent if inside else project
        path = f"{os.path.dirname(KUBECTL)}:{super().environment(project)['PATH']}"
        return {"PATH": path, "KUBECONFIG": str(self.runner.kubeconfig)}

    def seen_by_nodes(self, project: Path) -> Path:
        return Path("/shared")


Make = Callable[..., Job]


@pytest.fixture
def make(runner: PodRunner, tmp_path: Path) -> Iterator[Make]:
    rack = Rack(runner, tmp_path)
    yield rack.make
    rack.clear()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_pods_train_to_the_weights_of_local(make: Make, tmp_path: Path) -> None:
    """`accelerate launch` starts the ranks from the accelerate.yaml in the ConfigMap."""
    train = ("task=digits", "loop.epochs=null", "loop.steps=15")
    local = compile_job(CompileRequest(("backend=local", "procs=2", "launcher=spawn", *train)))
    program = write_compiled_job(local, tmp_path / "local" / "artifacts") / "jobctl"
    done = subprocess.run([program, "submit"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=170)
    wanted = re.findall(r"sha256 (\w{64})", done.stdout)
    assert len(wanted) == 1
    job = make(*train, "code=image", "procs=1", "backend.flavor=trainjob", "launcher=accelerate")
    code, said = job("submit", "--wait")
    assert code == 0, said
    assert re.findall(r"sha256 (\w{64})", (job.run / "logs/node_00.log").read_text()) == wanted


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_jobset_makes_all_pods_again_for_75_and_69_and_none_for_65(make: Make, flavor: str) -> None:
    def ended(job: Job) -> tuple[str, int]:
        made = job.runner.store.get("jobsets", job.name)
        (reason,) = (c["reason"] for c in made["status"]["conditions"] if c["type"] in ("Completed", "Failed"))
        return reason, made["status"]["restarts"]

    once = make(f"backend.flavor={flavor}", program=f"{75 if flavor == 'jobset' else 69} 3 0")
    code, said = once("submit", "--wait")
    assert code == 0, said
    assert ended(once) == ("AllJobsCompleted", 1)
    assert len(once.pods("Succeeded")) == len(once.pods()) == 2, "those of the first attempt are gone"
    once.wait_until_up(4, attempt=1)
    if flavor == "trainjob":
        return  # its JobSet is the same

    never = make(f"backend.flavor={flavor}", "name=broken", program="65 60 0")
    code, said = never("submit", "--wait")
    assert code == 65, said
    assert ended(never)[0] == "FailJobSetFailurePolicyAction"
    logs = never.storage.glob("runs/broken/*/logs/rank_*.log")
    assert not any("up 1" in log.read_text() for log in logs), "a peer that ends first may have the JobSet start again"

    often = make(f"backend.flavor={flavor}", "name=often", "lifecycle.max_requeues=1", program="69 60 0 1 2 3")
    code, said = often("submit", "--wait")
    assert code in (69, 75), said  # 75: of the peer, which ended first, and whose end took the other pod away
    assert ended(often) == ("ReachedMaxRestarts", 1)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_deadline_is_the_end_of_all_attempts(make: Make, flavor: str) -> None:
    job = make(f"backend.flavor={flavor}", "backend.deadline=4s", program="0 200")
    code, said = job("submit", "--wait")
    assert code == 75 and "Failed DeadlineExceeded" in job("status")[1], said
    made = job.runner.store.get("jobsets", job.name)
    assert made is None or made["status"]["restarts"] == 0
    wait_for(lambda: not job.pods(), "no pods")


def test_stop_ends_a_trainjob_with_0_and_a_resume_goes_on(make: Make) -> None:
    job = make("backend.flavor=trainjob", program="0")
    assert job("submit", "--", "200")[0] == 0  # seconds; without this argument, the pods end at once
    job.wait_until_up(4, attempt=0)
    code, said = job("stop")
    assert code == 0 and "stopped by jobctl stop" in said, said
    job.resume()
    assert job("stop", "--now")[0] == 0


def test_code_of_a_commit_is_checked_out_and_must_exist(make: Make, tmp_path: Path) -> None:
    repository = tmp_path / "storage" / "repository"
    (repository / "src").mkdir(parents=True)
    (repository / "src" / "program.py").write_text('import os\nprint("from", os.getcwd(), flush=True)\n')
    git = ["git", "-C", repository, "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    (repository / "src" / "program.py").write_text("raise SystemExit('not this one')\n")
    words = ("code=git", "code.repository=/shared/repository", "code.root=src")
    job = make(*words, f"code.commit={head}", program="0")
    code, said = job("submit", "--wait")
    assert code == 0, said
    code_folder = f"/shared/{job.run.relative_to(job.storage)}/code/src"
    assert f"from {code_folder}" in (job.run / "logs" / "rank_03.log").read_text()
    other = make(*words, f"code.commit={'0' * 40}", "name=other", program="0")
    code, said = other("submit", "--wait")
    assert code == 65, said
    assert "is not in /shared/repository" in other("logs", "--follow", "--node", "0")[1]


# A sidecar, and an init container that ends as it is told: items of extra by their names, for the pods bring none.
SIDE = """
said=/shared/said_$JOB_COMPLETION_INDEX
trap 'echo end of side >>$said; exit 1' TERM
echo side >>$said
sleep 90 & wait
"""
FETCH = "echo fetched | tee -a /shared/said_$JOB_COMPLETION_INDEX; exit $1"
ITEM = (
    "backend.extra.Pod.spec.initContainers.{}="
    "{{image: x, command: [bash, /shared/{}], {}volumeMounts: {{mount-0: {{mountPath: /shared}}}}}}"
)


def test_a_sidecar_and_an_init_container_of_extra_run_and_what_fails_is_told(make: Make, tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    (storage / "side.sh").write_text(SIDE)
    (storage / "fetch.sh").write_text(FETCH)
    side = ITEM.format("side", "side.sh", "restartPolicy: Always, ")
    job = make(side, ITEM.format("fetch", "fetch.sh, 0", ""), program="0 1")
    code, said = job("submit", "--wait")
    assert code == 0, said
    for node in range(2):
        assert (job.storage / f"said_{node}").read_text().splitlines() == ["side", "fetched", "end of side"]
    job = make(side, ITEM.format("fetch", "fetch.sh, 7", ""), "name=other", "lifecycle.max_requeues=0", program="0 1")
    code, said = job("submit", "--wait")
    assert code == 1, said
    said = job("status")[1]
    assert "reason: node" in said and said.count("init container fetch exited with 7") >= 2, said
    (record,) = job.artifact.parents[2].glob("runs/other/*/logs/first_failure.txt")
    assert "/fetch] fetched" in record.read_text()


def test_broken_data_ends_the_job_at_once_and_its_first_failure_is_kept(make: Make) -> None:
    job = make(program="65 60 0")
    code, said = job("submit", "--wait")
    assert code == 65, said
    left = job.pods()  # node 0 may have ended by itself before Kubernetes deleted it
    assert left == job.pods("Failed") and any(f"{job.name}-1-" in pod for pod in left), "the one that failed stays"
    said = job("status")[1]
    assert "failed (exit 65" in said and "rank 3 failed first" in said, said
    assert "up 0" in job("logs", "--rank", "0")[1], "the storage has what a deleted pod said"


@pytest.mark.parametrize("seen", [1, 71])
def test_a_code_that_cannot_be_mended_ends_the_job_by_its_policy(make: Make, seen: int) -> None:
    job = make(program=f"{seen} 60 0")
    code, said = job("submit", "--wait")
    assert code == seen, said
    made = job.runner.store.get("jobs", job.name)
    (failed,) = (each for each in made["status"]["conditions"] if each["type"] == "Failed")
    assert failed["reason"] == "PodFailurePolicy" and f"exit code {seen} matching FailJob" in failed["message"]


@pytest.mark.parametrize("seen", [69, 75])
def test_a_lost_peer_or_a_preemption_starts_all_nodes_again_together(make: Make, seen: int) -> None:
    job = make(program=f"{seen} 3 0")
    code, said = job("submit", "--wait")
    assert code == 0, said
    job.wait_until_up(4, attempt=1)
    assert sorted(len(job.pods(phase)) for phase in ("Failed", "Succeeded")) == [2, 2]


def test_restarts_are_counted_in_attempts_and_end(make: Make) -> None:
    job = make("lifecycle.max_requeues=1", program="69 60 0 1 2 3")
    code, said = job("submit", "--wait")
    assert code == 69, said
    assert sorted(folder.name.split(".")[0] for folder in (job.run / "starts").iterdir()) == ["0", "1"]


def test_an_evicted_pod_brings_all_into_the_next_attempt(make: Make) -> None:
    job = make(program="0 6")
    assert job("submit")[0] == 0
    job.wait_until_up(4, attempt=0)
    job.runner.evict(job.pods("Running")[1])
    job.wait_until_up(4, attempt=1)
    wait_for(lambda: "done (exit 0)" in job("status")[1], "the end")


def test_stop_ends_all_with_0_and_a_resume_goes_on(make: Make) -> None:
    job = make(program="0 200")
    assert job("submit")[0] == 0
    job.wait_until_up(4, attempt=0)
    code, said = job("submit")
    assert code == 1 and "is live in namespace testbed of context testbed, started by" in said
    code, said = job("stop")
    assert code == 0 and "stopped by jobctl stop" in said, said
    assert len(job.pods("Succeeded")) == len(job.pods()) == 2
    assert (job.run / "control" / "STOP").exists()
    job.resume()
    assert not (job.run / "control" / "STOP").exists()
    assert job("stop", "--now")[0] == 0


def test_a_job_deleted_by_hand_stays_deleted_and_can_go_on(make: Make) -> None:
    job = make(program="0 200")
    assert job("submit")[0] == 0
    job.wait_until_up(4, attempt=0)
    job.kubectl("delete", "job", job.name, "--cascade=foreground")
    assert not job.pods()
    said = job("status", "--all")[1]
    assert "it was deleted by hand" in said and "only in the run's storage" in said and "failed" not in said, said
    said = job("status")[1]
    assert "stopped early (exit 75)" in said and "deleted by hand" in said, "as its nodes have said on the storage"
    job.resume()
    assert job("stop", "--now")[0] == 0


def test_a_job_that_ended_and_went_unseen_is_told_by_its_storage(make: Make) -> None:
    """As lifecycle.keep does; the pod runner has no TTL."""
    ended = "failed (exit 65"
    job = make(program="65 60 0")
    assert job("submit")[0] == 0
    wait_for(lambda: bool({"Complete", "Failed"} & {*conditions(job)}), "the end")
    job.kubectl("delete", "job", job.name, "--cascade=foreground")
    said = job("status", "--all")[1]
    assert "only in the run's storage" in said and "failed" not in said, said
    said = job("status")[1]
    assert ended in said, said
    assert ended in job("status", "--all")[1], "it is in the record now"
    wait_for(lambda: not job.runner.pods(), "no pods")


def conditions(job: Job) -> list[str]:
    made = job.runner.store.get("jobs", job.name)
    return [each["type"] for each in (made or {}).get("status", {}).get("conditions", ())]


def test_pods_that_no_node_can_hold_are_explained_and_removed(make: Make) -> None:
    job = make("gpus=4", program="0 1")
    assert job("submit")[0] == 0
    wait_for(lambda: "Insufficient nvidia.com/gpu" in job("status")[1], "the reason")
    assert "stopped by jobctl stop; its object was deleted" in job("stop")[1]
    assert not job.pods()


def test_kubectl_apply_by_hand_makes_its_own_run(make: Make) -> None:
    job = make(program="0 0")
    apply = ("apply", "-f", str(job.artifact / "job.yaml"))
    job.kubectl(*apply)
    again = job.kubectl(*apply)
    assert again.count("unchanged") == 3, again
    wait_for(lambda: len(job.pods("Succeeded")) == 2, "the end")
    assert job.run.name.startswith("kubernetes-")
    job.kubectl("delete", "job", job.name)
    code, said = job("submit", "--wait")
    assert code == 0, said  # the ConfigMap and the Service were still there


def test_a_sweep_is_a_job_for_each_point(make: Make, tmp_path: Path) -> None:
    job = make("nodes=1", program="0 0")
    words = (*BASE, *PLAIN, "name=swept", "nodes=1", "procs=1", "env.X=1,2")
    request = CompileRequest(words, ("bash", "-c", "echo this is $X"))
    ((folder,), _) = group_points_into_folders(compile_sweep(request))
    sweep = Job(job.runner, job.storage, write_compiled_job(folder, tmp_path / "artifacts"))
    code, said = sweep("submit", "--wait")
    assert code == 0 and said.count(": started, run ") == 2, said
    said = sweep("status")[1]
    assert "2 done" in said, said
    logs = [*job.storage.glob("runs/swept+env.X=*/*/logs/rank_00.log")]
    assert sorted(log.read_text().splitlines()[-1] for log in logs) == ["this is 1", "this is 2"]


def test_a_pod_that_comes_late_is_waited_for(make: Make, cluster: Cluster) -> None:
    late = cluster.nodes[-1]
    late.power_off()
    job = make("nodes=4", program="0 0")
    assert job("submit")[0] == 0
    wait_for(lambda: len(job.pods("Running")) == 3, "three pods")
    time.sleep(2)
    assert not list(job.run.glob("logs/rank_*")), "no rank has started"
    assert "1 of 4 pods are pending" in job("status")[1]
    late.power_on()
    said: list[str] = []

    def has_ended() -> bool:
        said.append(job("status")[1])
        return "(exit " in said[-1]

    wait_for(has_ended, "the end")
    assert "done (exit 0)" in said[-1], said[-1]


def test_preflight_and_smoke_run_on_every_node_and_leave_nothing(make: Make) -> None:
    job = make("task=digits", "code=image")
    code, said = job("preflight")
    assert code == 0 and "the cluster accepts the job" in said and "torch" in said, said
    code, said = job("smoke")
    assert code == 0 and "all-reduce" in said, said
    assert not list(job.storage.glob("runs/.checks/*")) and not job.runner.pods()


def test_the_preflight_of_a_pod_names_what_is_wrong_before_a_rank_starts(make: Make) -> None:
    on = ("backend.preflight=true", "lifecycle.max_requeues=0")
    good = make(*on, program="0 0")
    code, said = good("submit", "--wait")
    assert code == 0, said

    bad = make(*on, "storage.data=/shared/nowhere", "name=bad", program="0 0")
    code, said = bad("submit", "--wait")
    assert code == 1, said
    said = bad("status")[1]
    assert "reason: node" in said and "data folder /shared/nowhere: No such file or directory" in said, said
    made = bad.runner.store.get("jobs", bad.name)
    assert "Container node" in made["status"]["conditions"][0]["message"], "no retries"
    assert not list(bad.storage.glob("runs/bad/*/logs/*"))

    lost = make(*on, "backend.start_timeout=3s", "name=lost", program="0 0")
    text = (lost.artifact / "job.yaml").read_text()  # edited by hand, so that the Service knows no pod
    (lost.artifact / "job.yaml").write_text(text.replace("  selector: {", "  selector: {a: b, ", 1))
    assert lost("submit")[0] == 0
    wait_for(lambda: "failed (exit 71" in lost("status")[1], "the end")
    assert "cannot resolve node 0's host name" in lost("status")[1]


def test_a_shell_beside_a_live_run_and_without_one(make: Make) -> None:
    job = make(program="0 200")
    ask = ("--", "bash", "-c", 'echo "node $JOBC_NODE_RANK in $PWD"; exit 3')
    code, said = job("shell", *ask)
    assert code == 3 and "node 0 in /shared" in said, said
    assert job("submit")[0] == 0
    job.wait_until_up(4, attempt=0)
    code, said = job("shell", "--node", "1", *ask)
    assert code == 3 and "node 1 in /shared" in said, said
    assert job("stop", "--now")[0] == 0


def test_opensora_runs_as_its_team_starts_it(runner: PodRunner, tmp_path: Path) -> None:
    """On two nodes of two GPUs, from a folder of the image, with the storage of the nodes and their own time-outs."""
    image, disk = tmp_path / "image", tmp_path / "opensora"
    disk.mkdir()
    (image / "scripts/diffusion").mkdir(parents=True)
    (image / "scripts/diffusion/train.py").write_text(
        "import os, sys\nprint(*sys.argv[1:], os.environ['COLOSSALAI_DIST_TIMEOUT'], os.environ['WORLD_SIZE'])"
    )
    mount = f"mounts=[{{kind: host, source: {disk}, target: /mnt/opensora, read_only: false}}]"
    small = ("nodes=2", "gpus=2", "shm=16MiB", "launcher=spawn", "backend.preflight=false")
    words = ("backend=kubernetes", "+experiment=opensora_k8s", f"container.workdir={image}", mount, *small)
    artifact = write_compiled_job(compile_job(CompileRequest(words)), tmp_path / "project" / "artifacts")
    code, said = Job(runner, disk, artifact)("submit", "--wait")
    assert code == 0, said
    logs = sorted(disk.glob("runs/opensora_k8s/*/logs/rank_*.log"))
    line = "configs/diffusion/train/demo.py --dataset.data-path modified_data.csv 1800 4\n"
    assert len(logs) == 4 and all(log.read_text().endswith(line) for log in logs)
