"""Backend skypilot without SkyPilot: the conformance suite on a stand-in, the task, and how a run ends.

tests/skypilot/ has the rest (make test-sky): SkyPilot reads the goldens, and launches one on the test bed's Slurm.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from jobc.backends.skypilot import schema
from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.compiler.testing.suite import BackendSuite
from jobc.tests.backends.sky_jobs import PLAIN, SHARED, STAND_INS, Job, any_of, pids
from jobc.tests.testbed import wait_for

GOLDEN = Path(__file__).parents[1] / "golden" / "skypilot"


class TestSkypilot(BackendSuite):
    backend = "skypilot"
    golden = GOLDEN
    overrides: ClassVar = ("storage.run=node",)
    stand_ins = STAND_INS
    queued: ClassVar = ("nodes=9",)  # more than the stand-in has
    several_nodes: ClassVar = ("nodes=2", "storage.run=shared", "backend.infra=slurm/bed")  # they share this machine

    def environment(self, project: Path) -> dict[str, str]:
        """SkyPilot keeps what it knows in the home folder. project: that, or an artifact in it"""
        inside = [folder for folder in project.parents if folder.name == "artifacts"]
        return {**super().environment(project), "HOME": str(inside[0].parent if inside else project)}


def test_pods_get_shared_memory_and_folders_of_their_nodes_beside_what_the_user_configures() -> None:
    mounts = "mounts=[{kind: host, source: /nvme, target: /data, read_only: true}]"
    image = (*PLAIN, "container=pod", "python=image", "image=x", "shm=3GiB")
    spec, metadata = "{volumes: [{name: own}], hostIPC: true}", "{annotations: {limit: 3600}}"
    own = f"backend.config={{kubernetes: {{pod_config: {{spec: {spec}, metadata: {metadata}}}}}}}"
    made = task(*image, mounts, own)
    assert made["resources"]["infra"] == "k8s", "no machine of a cloud has the folder"
    assert made["config"]["kubernetes"]["pod_config"]["metadata"] == {"annotations": {"limit": "3600"}}  # text
    pod = made["config"]["kubernetes"]["pod_config"]["spec"]
    folder = {"name": "mount-0", "mountPath": "/data", "readOnly": True}
    assert pod["containers"] == [{"volumeMounts": [folder]}] and pod["hostIPC"] is True
    assert [volume["name"] for volume in pod["volumes"]] == ["mount-0", "dshm", "own"]
    assert pod["volumes"][1]["emptyDir"] == {"medium": "Memory", "sizeLimit": "3Gi"}
    on_aws = task(*image, "backend.infra=aws")
    assert on_aws["config"] == {"docker": {"run_options": ["--shm-size=3072m"]}}


def task(*words: str) -> dict[str, Any]:
    texts = {file.path: file.text for file in compile_job(CompileRequest(words)).artifacts}
    read: dict[str, Any] = yaml.safe_load(texts["task.sky.yaml"])
    return read


def test_every_golden_task_fits_the_schema() -> None:
    files = sorted(GOLDEN.glob("*/expected/task.sky.yaml"))
    assert len(files) >= 10
    assert [(file.parts[-3], schema.find_schema_errors(yaml.safe_load(file.read_text()))) for file in files] == [
        (file.parts[-3], []) for file in files
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"nodes": 2}, {"num_nodes": "eight"}, {"setup": ["a"]}, {"envs": {"1-x": "a"}}, {"workdir": {"ref": "x"}},
        {"config": {"docker": {"bogus": 1}}}, {"resources": {"priority": 99999}}, {"resources": {"infra": "moon"}},
        {"resources": {"autostop": {"idle": 3}}}, {"resources": {"any_of": [{"acelerators": "H100"}]}},
        {"resources": {"max_hourly_cost": 0}}, {"resources": {"cloud": "marsnet"}}, {"resources": {"labels": {"a": 1}}},
        {"resources": {"job_recovery": {"recover_on_exit_codes": [75, 75]}}},
        {"resources": {"accelerators": {"H100": "8"}}},
    ],
    ids=str,
)  # fmt: skip
def test_the_schema_is_read_as_skypilot_reads_it(change: dict[str, Any]) -> None:
    assert schema.find_schema_errors(change)


def test_a_managed_job_is_recovered_after_75_and_69_alone() -> None:
    words = ("backend=skypilot", "backend.managed=true", "backend.infra=slurm/bed", "storage.root=/shared/runs")
    recovery = task(*words)["resources"]["job_recovery"]
    assert recovery == {"max_restarts_on_errors": 0, "recover_on_exit_codes": [69, 75]}
    assert task(*words, "lifecycle.max_requeues=0")["resources"]["job_recovery"]["recover_on_exit_codes"] == []


def test_alternatives_on_one_slurm_are_slurm_for_all_of_the_task() -> None:
    made = task(*SHARED[:1], *SHARED[2:], any_of("slurm/a", "slurm/b/own"), "queue.name=main", "queue.account=team")
    assert [each["infra"] for each in made["resources"]["any_of"]] == ["slurm/a/main", "slurm/b/own"]
    assert made["config"]["slurm"]["sbatch_options"] == {"account": "team"}


def test_submit_looks_for_every_file_that_goes_along() -> None:
    words = (
        *PLAIN,
        "backend.file_mounts={/a: /one, /b: 's3://b'}",
        "backend.extra={file_mounts: {/c: {source: '~/two'}}}",
    )
    texts = {file.path: file.text for file in compile_job(CompileRequest(words)).artifacts}
    assert json.loads(texts[".jobc/job.json"])["local_files"] == ["/one", "~/two"]


@pytest.mark.parametrize("option", ["false", "true"])
def test_usage_collection_is_a_setting_of_the_scripts(option: str) -> None:
    made = compile_job(CompileRequest((*PLAIN, f"backend.usage_collection={option}")))
    settings = json.loads(next(file.text for file in made.artifacts if file.path == ".jobc/job.json"))
    assert settings["usage_collection"] is (option == "true")


def test_a_cluster_ends_by_itself_where_skypilot_can_end_it() -> None:
    assert task(*PLAIN)["resources"]["autostop"] == {"idle_minutes": 10, "down": True}
    assert task(*SHARED, "backend.autostop=90s")["resources"]["autostop"] == {"idle_minutes": 2, "down": True}
    assert "autostop" not in task(*SHARED, "backend.autostop=null")["resources"]
    assert "autostop" not in task(*SHARED, "backend.infra=slurm/bed", "backend.managed=true")["resources"]


# ---- how a run ends ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "code", "list_of_codes"),
    [("65 -", 65, "[65, 0]"), ("- 65", 65, "[65, 0]"), ("75 75", 75, "[75, 0]"), ("1 -", 1, "[1, 0]"), ("0 0", 0, "")],
)
def test_node_0_alone_says_how_the_run_ended(folder: Path, program: str, code: int, list_of_codes: str) -> None:
    """SkyPilot recovers when any node ended with 75, and kills the others when the first one fails."""
    job = Job(folder, program=program)
    ended, said = job("submit", "--wait")
    assert ended == code, said
    assert f"return code list: {list_of_codes}" in said or not list_of_codes
    _, status = job("status")
    assert f"(exit {code}" in status and "jobctl stop --down" in status


def test_setup_runs_again_when_what_its_lines_read_has_changed_and_only_then(folder: Path) -> None:
    (folder / "code").mkdir()  # beside what the stand-in and the lines write, for all of it is in one home folder
    words = ("nodes=1", "code.root=code", "backend.setup=['cat requirements.txt >>~/installed']")
    job = Job(folder, *words, program="0")
    shutil.copy(folder / "program.py", folder / "code")
    for name, requirements in (("a", "one"), ("b", "one"), ("c", "two"), ("d", "two")):
        (folder / "code" / "requirements.txt").write_text(f"{requirements}\n")
        code, said = job("submit", "--run-id", name, "--wait")
        assert code == 0, said
    assert (folder / "installed").read_text().split() == ["one", "two"]


def test_the_nodes_are_set_up_for_a_check_before_the_first_launch(folder: Path) -> None:
    (folder / "requirements.txt").write_text("one\n")
    setup = "backend.setup=['cat requirements.txt >>~/installed; echo $REF >>~/installed']"
    job = Job(folder, "nodes=1", setup, "env.REF=main", program="0")
    code, said = job("smoke")
    assert code == 0 and (folder / "installed").read_text() == "one\nmain\n", said


def test_stop_lets_it_save_and_takes_a_cluster_of_slurm_down(folder: Path) -> None:
    job = Job(folder, program="- -")
    assert job("submit")[0] == 0
    job.wait_until_up()
    code, said = job("stop")
    assert code == 0 and "stopped by jobctl stop" in said and "no longer costs" in said, said
    assert (job.run / "control" / "STOP").exists()


def test_a_cluster_that_costs_money_is_named_until_it_is_down(folder: Path) -> None:
    job = Job(folder, "backend.infra=aws", "storage.run=node", "storage.root=storage", "nodes=1", program="0")
    code, said = job("submit", "--wait")
    assert code == 0, said
    assert "costs money" in job("status")[1]
    code, said = job("stop", "--down")
    assert code == 0 and "no longer costs" in said, said


def test_a_resume_goes_on_in_the_same_run(folder: Path) -> None:
    job = Job(folder, program="75")
    assert job("submit", "--wait", "--run-id", "first", "--", "75")[0] == 75
    code, said = job("submit", "--wait", "--resume", "first")
    assert code == 75, "without the argument of the first submit, rank 1 crashes\n" + said
    assert sorted(path.name for path in (job.run / "exit").iterdir()) == ["0", "1"]


RECOVERS = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
attempt = int(os.environ["JOBC_ATTEMPT"])
codes = sys.argv[1:][attempt:]
if not codes:
    sys.exit(0)
ready = pathlib.Path(os.environ["JOBC_RUN_DIR"], f"ready_{attempt}")
if os.environ["RANK"] == "0":
    ready.touch()
    time.sleep(60)
while not ready.exists():  # who has no handler yet dies of SIGTERM
    time.sleep(0.05)
sys.exit(int(codes[0]))
"""


@pytest.mark.parametrize(
    ("program", "code", "attempts"),
    [("75", 0, 2), ("69 75", 0, 3), ("65", 65, 1)],
)
def test_a_managed_job_is_recovered_by_its_codes(folder: Path, program: str, code: int, attempts: int) -> None:
    words = ("backend.managed=true", f"lifecycle.max_requeues={1 if attempts == 2 else 3}")
    job = Job(folder, *words, program=program)
    (folder / "program.py").write_text(RECOVERS)
    ended, said = job("submit", "--wait")
    assert ended == code, said
    assert len([*(job.run / "artifact").iterdir()]) == attempts
    assert "managed job 1" in said or "exit" in job("status")[1]


def test_a_managed_job_is_stopped_where_its_storage_is_seen(folder: Path) -> None:
    job = Job(folder, "backend.managed=true", program="- -")
    assert job("submit")[0] == 0
    job.wait_until_up()
    code, said = job("stop")
    assert code == 0 and "stopped by jobctl stop" in said, said


def test_two_nodes_train_to_the_local_weights(folder: Path) -> None:
    train = ("task=digits", "loop.epochs=1", "launcher=spawn", "threads=1", "name=job")
    (folder / "here").mkdir()
    job = Job(folder, *train, "procs=1")
    code, said = job("submit", "--wait")
    assert code == 0, said
    artifact = write_compiled_job(
        compile_job(CompileRequest(("backend=local", "procs=2", *train))), folder / "here" / "artifacts"
    )
    subprocess.run([artifact / "jobctl", "submit"], capture_output=True, check=True)
    files = [*folder.glob("storage/job/*/final/weights.pt"), *folder.glob("here/runs/job/*/final/weights.pt")]
    assert len(files) == 2 and len({hashlib.sha256(file.read_bytes()).hexdigest() for file in files}) == 1


@pytest.mark.parametrize("where", ["project", "artifact", "elsewhere"])
def test_sky_launch_by_hand(folder: Path, where: str) -> None:
    job = Job(folder, "nodes=1", program="0")
    (folder / "elsewhere").mkdir()
    places = {"project": folder, "artifact": job.artifact, "elsewhere": folder / "elsewhere"}
    if where == "artifact":  # which brings no code
        job = Job(folder, "nodes=1", "code=none", program="0")
        shutil.copy(folder / "program.py", job.artifact)
    command = ["sky", "launch", "--cluster", "mine", "--yes", str(job.artifact / "task.sky.yaml")]
    done = subprocess.run(command, cwd=places[where], env=job.environment, capture_output=True, text=True, check=True)
    if where == "elsewhere":
        assert "jobctl is missing in the files sent" in done.stdout and "[65]" in done.stdout, done.stdout
    else:
        assert "exited with 0" in done.stdout and job.run.name.startswith("sky-"), done.stdout


@pytest.mark.parametrize(
    ("said", "by_hand", "refused"),
    [
        ("num_nodes: 2", "num_nodes: 3", "SkyPilot provides 3 nodes, but the job was compiled for 2"),
        ('"fake:2"', '"fake:1"', "SkyPilot provides 1 GPUs per node, but the job was compiled for 2"),
        ('  accelerators: "fake:2"\n', "", "SkyPilot provides 0 GPUs per node, but the job was compiled for 2"),
    ],
)
def test_another_number_of_nodes_or_gpus_is_refused_on_the_node(
    folder: Path, said: str, by_hand: str, refused: str
) -> None:
    job = Job(folder, "gpus=2", "gpu_type=fake", program="0 0 0 0")
    file = job.artifact / "task.sky.yaml"
    assert said in file.read_text()
    file.write_text(file.read_text().replace(said, by_hand))
    command = ["sky", "launch", "--cluster", "mine", "--yes", str(file)]
    done = subprocess.run(command, cwd=folder, env=job.environment, capture_output=True, text=True, check=True)
    assert refused in done.stdout and re.search(r"return code list: .*\b65\b", done.stdout), done.stdout
    assert not [*folder.glob("storage/job/*/logs/rank_*")]


@pytest.mark.parametrize(
    ("words", "cancel"),
    [((), ("cancel", "--yes", "CLUSTER", "1")), (("managed=true",), ("jobs", "cancel", "--yes", "1"))],
)
def test_a_cancel_by_hand_ends_it_and_nothing_starts_it_again(
    folder: Path, words: tuple[str, ...], cancel: tuple[str, ...]
) -> None:
    job = Job(folder, *(f"backend.{word}" for word in words), program="- -")
    assert job("submit")[0] == 0
    job.wait_until_up()
    (cluster,) = (folder / ".stand_in_sky").iterdir()
    command = ["sky", *(word.replace("CLUSTER", cluster.name) for word in cancel)]
    subprocess.run(command, env=job.environment, check=True, timeout=60)
    state = cluster / "1.json"
    wait_for(lambda: json.loads(state.read_text())["status"] != "RUNNING", "its end")
    assert json.loads(state.read_text())["status"] == "CANCELLED"
    wait_for(lambda: not pids(str(folder)), "no process of it anywhere")
    assert [path.name for path in (job.run / "artifact").iterdir()] == ["0"] and len([*cluster.glob("*.json")]) == 1
    code, said = job("status")
    assert code == 0 and "stopped early (exit 75)" in said and "SkyPilot reports CANCELLED" in said, said


def test_a_secret_goes_along_and_is_in_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(folder, "secrets.TOKEN=env:MY_TOKEN", "nodes=1", program="0")
    monkeypatch.delenv("MY_TOKEN", raising=False)
    assert job("submit") == (
        65,
        "error: secret: the environment variable MY_TOKEN is not set\n  hint: export MY_TOKEN, then submit again\n",
    )
    monkeypatch.setenv("MY_TOKEN", "hidden-value")
    code, said = job("submit", "--wait")
    assert code == 0, said
    assert not [
        file for file in folder.rglob("*") if file.is_file() and "hidden-value" in file.read_text(errors="replace")
    ]


@pytest.mark.parametrize("experiment", ["aorta", "audio_encoder", "qwen_image", "slurm_ddp"])
def test_the_experiments_are_the_same_job_as_on_slurm(experiment: str) -> None:
    words = (f"+experiment={experiment}", "gpu_type=H100", "storage.root=/shared/runs")
    here = compile_job(CompileRequest((*words, "backend=skypilot", "backend.infra=slurm/bed")))
    there = compile_job(CompileRequest((*words, "backend=slurm")))
    one, other = (next(file.text for file in job.artifacts if file.path == "launch.sh") for job in (here, there))
    assert one == other and here.plan.train == there.plan.train
