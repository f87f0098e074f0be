"""Backend skypilot without SkyPilot: the conformance suite on a stand-in, what is refused, how a run ends.

tests/skypilot/ has the rest (make test-sky): SkyPilot reads the goldens, and launches one on the test bed's Slurm.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from jobc.backends._shared.gpus import GPUS, SOLD
from jobc.backends.skypilot import schema
from jobc.compiler.diagnostics import CompileError, Severity
from jobc.compiler.driver import Request, compile_job, write_job
from jobc.compiler.testing import BackendSuite
from jobc.tests.backends.sky import STAND_INS, Job, folder
from jobc.tests.storage.s3_server import S3Server
from jobc.tests.testbed import wait_for

GOLDEN = Path(__file__).parents[1] / "golden" / "skypilot"
__all__ = ["folder"]  # a fixture
PLAIN = ("backend=skypilot", "storage.run=node")
SHARED = ("backend=skypilot", "backend.infra=slurm/bed", "storage.root=/shared/runs", "nodes=2")


def any_of(*infras: str) -> str:
    """Machines that would do, as a word of the command line."""
    return f"backend.any_of=[{', '.join(f'{{infra: {i}, gpu_type: null, use_spot: null}}' for i in infras)}]"


class TestSkypilot(BackendSuite):
    backend = "skypilot"
    golden = GOLDEN
    overrides: ClassVar = ("storage.run=node",)
    stand_ins = STAND_INS

    def environment(self, project: Path) -> dict[str, str]:
        """SkyPilot keeps what it knows in the home folder. project: that, or an artifact in it"""
        inside = [folder for folder in project.parents if folder.name == "artifacts"]
        return {**super().environment(project), "HOME": str(inside[0].parent if inside else project)}


def refused(*words: str, severity: Severity = Severity.ERROR) -> list[str]:
    try:
        found = compile_job(Request(words)).diagnostics
    except CompileError as error:
        found = error.diagnostics
    return [diagnostic.code for diagnostic in found if diagnostic.severity is severity]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("JC4701", (*PLAIN, "backend.infra=awss")),
        ("JC4701", (*PLAIN, "backend.infra=aws/a/b/c")),
        ("JC4701", (*PLAIN, "backend.any_of=[{infra: moon, gpu_type: null, use_spot: null}]")),
        ("JC4702", (*PLAIN, "backend.infra=k8s/prod", "backend.clusters=[dev]")),
        ("JC4703", (*PLAIN, "gpus=8")),
        ("JC4704", (*PLAIN, "gpus=8", "gpu_type=ZZ9000")),
        ("JC4704", (*PLAIN, "gpus=8", "gpu_type=h100")),
        ("JC4704", (*SHARED, "gpus=1", "gpu_type=H100:0.5")),
        ("JC4705", (*PLAIN, "gpus=16", "gpu_type=H100")),
        ("JC4706", ("backend=skypilot", "nodes=2")),
        ("JC4706", ("backend=skypilot", "nodes=2", "backend.infra=slurm/bed")),
        ("JC4706", ("backend=skypilot", "nodes=2", "storage.root=/shared/runs")),
        ("JC4707", (*PLAIN, "backend.managed=true")),
        ("JC4707", (*PLAIN, "nodes=2", "lifecycle.max_restarts=1")),
        ("JC4708", (*PLAIN, "mounts=[{kind: claim, source: a, target: /a, read_only: false}]")),
        (
            "JC4708",
            (
                *PLAIN,
                "container=pod",
                "env=image",
                "image=x",
                "mounts=[{kind: host, source: /a, target: /a, read_only: false}]",
                "backend.infra=aws",
            ),
        ),
        ("JC4708", (*PLAIN, "mounts=[{kind: bucket, source: a, target: /b, read_only: false}]")),
        ("JC4708", (*PLAIN, "mounts=[{kind: volume, source: a, target: /b, read_only: true}]")),
        ("JC4709", (*PLAIN, "backend.file_mounts={/data: data}")),
        ("JC4709", (*PLAIN, "backend.extra={file_mounts: {/data: {source: data, mode: COPY}}}")),
        ("JC4709", (*PLAIN, "backend.extra={file_mounts: {/data: 3}}")),
        ("JC4711", (*SHARED, "backend.use_spot=true")),
        ("JC4711", (*SHARED, "backend.extra={resources: {use_spot: true}}")),
        ("JC4711", (*SHARED, "backend.extra={resources: {ports: [80]}}")),
        ("JC4711", (*SHARED, "backend.extra={resources: {memory: 8}}", "backend.tracks_memory=false")),
        ("JC4711", (*SHARED, "backend.extra={resources: {local_disk: nvme}}")),
        ("JC4711", (*SHARED, "backend.down=false")),
        ("JC4711", (*PLAIN, "backend.infra=k8s/dev", "backend.down=false")),
        ("JC4711", (*PLAIN, "backend.infra=k8s/dev", "backend.disk_tier=high")),
        ("JC4711", (*PLAIN, "backend.ports=[80]", any_of("aws", "slurm/bed"))),
        ("JC4711", (*PLAIN, "backend.any_of=[{infra: slurm/bed, gpu_type: null, use_spot: true}]")),
        ("JC4711", (*SHARED, "backend.ports=[80]")),
        ("JC4711", (*SHARED, "mem=1GiB", "backend.tracks_memory=false")),
        ("JC4713", (*SHARED, "queue.qos=hihg", "backend.qos=[high]")),
        ("JC4713", (*SHARED, "backend.extra={config: {slurm: {sbatch_options: {qos: hihg}}}}", "backend.qos=[high]")),
        ("JC4714", (*PLAIN, "queue.priority=99999")),
        ("JC4714", (*PLAIN, "backend.extra={resources: {priority: -2000}}")),
        ("JC4715", (*PLAIN, "backend.extra={config: {slurm: {bogus: 1}}}")),
        ("JC4716", (*PLAIN, "backend.extra={config: {slurm: {sbatch_options: {time: soon}}}}")),
        ("JC4716", (*PLAIN, "backend.extra={config: {slurm: {sbatch_options: {mem: 4G}}}}")),
        ("JC4715", (*PLAIN, "backend.config={slurm: {bogus: 1}}")),
        ("JC4715", (*PLAIN, "backend.config={kubernets: {pod_config: {}}}")),
        ("JC4716", (*PLAIN, "backend.config={slurm: {sbatch_options: {time: soon}}}")),
        ("JC4716", (*PLAIN, "backend.config={slurm: {sbatch_options: {mem: 4G}}}")),
        ("JC4720", (*PLAIN, "backend.disk_size=1MiB")),
        ("JC4720", (*PLAIN, "backend.infra=gcp", "backend.disk_size=45GiB")),
        ("JC4720", (*PLAIN, "backend.extra={resources: {disk_size: 20GB}}")),
        ("JC4717", (*PLAIN, "container=pod", "env=image", "image=docker:x")),
        ("JC4717", (*PLAIN, "backend.cluster=8nodes")),
        ("JC4717", (*PLAIN, "container=pod", "env=image", "image=Upper/X:1")),
        ("JC4717", (*PLAIN, "backend.infra=aws", "backend.ports=[80-]")),
        ("JC4717", (*PLAIN, "backend.infra=k8s/dev", "labels.team='audio team'")),
        ("JC4717", (*PLAIN, "backend.infra=k8s/dev", "backend.extra={resources: {labels: {team: 'a b'}}}")),
        ("JC4718", (*PLAIN, any_of("aws"), any_of("gcp").replace("any_of", "ordered"))),
        ("JC4719", (*SHARED, "backend.infra=slurm/bed/gpuu", "+site.partitions={gpu: {}, cpu: {}}")),
        ("JC4719", (*SHARED, "backend.infra=slurm/bed/gpu", "queue.name=cpu")),
        ("JC4540", (*PLAIN, "backend.config={kubernetes: {pod_config: {spec: {hostIpc: true}}}}")),
        ("JC4540", (*PLAIN, "backend.extra={config: {kubernetes: {pod_config: {spec: {hostIpc: true}}}}}")),
        ("JC4550", (*PLAIN, "backend.config={ssh: {pod_config: {spec: {nodeSelector: {pool: 'a b'}}}}}")),
        ("JC4718", (*PLAIN, "backend.extra={resources: {disk_tier: ultrahigh}}")),
        ("JC4718", (*PLAIN, "backend.extra={resources: {lokal_disk: x}}")),
        ("JC4718", (*PLAIN, "backend.config={docker: {run_options: 7}}")),
        ("JC4600", (*PLAIN, "backend.extra={num_nodes: 9}")),
        ("JC4600", (*PLAIN, "backend.extra={resources: {accelerators: H100:0.5}}")),
        ("JC4600", (*PLAIN, "backend.extra={envs: {A: 7}}")),
        ("JC4600", (*PLAIN, "backend.extra={secrets: {TOKEN: null}}")),
        ("JC4101", (*PLAIN, "secrets.A=k8s:a/b")),
        ("JC2080", ("backend=skypilot", "storage.run=object")),
    ],
)
def test_what_skypilot_takes_or_refuses_late_is_refused_now(code: str, words: tuple[str, ...]) -> None:
    assert code in refused(*words)


NODES = (*SHARED, "queue.nodelist=[node1, node2]")


@pytest.mark.parametrize(
    ("words", "option", "found"),
    [
        (SHARED, "tiem: '1:00'", "sbatch has no option --tiem; did you mean backend.config.slurm.sbatch_options.time"),
        (SHARED, "N: 2", "sbatch has no option --N; leave it out, and set nodes"),
        (SHARED, "w: node1", "sbatch has no option --w; did you mean backend.config.slurm.sbatch_options.nodelist"),
        (SHARED, "--time: 60", "sbatch has no option ----time; did you mean backend.config.slurm.sbatch_options.time"),
        (SHARED, "array: 0-3", "KEY would break the plan; leave it out; what says that is jobc -m, which makes a job"),
        (SHARED, "ntasks: 9", "KEY would break the plan; leave it out; what says that is nodes and procs"),
        (SHARED, "ntasks_per_node: 9", "KEY would break the plan; leave it out; what says that is nodes and procs"),
        (SHARED, "gpus-per-node: 1", "KEY would break the plan; leave it out; what says that is gpus"),
        (NODES, "nodelist: a", "KEY is said twice; leave out KEY, or hosts or queue.nodelist"),
        ((*SHARED, "hosts=node[1-2]"), "nodelist: a", "KEY is said twice; leave out KEY, or hosts or queue.nodelist"),
        ((*SHARED, "queue.qos=a"), "qos: b", "KEY is said twice; leave out KEY, or queue.qos"),
        (SHARED, "exclusive: maybe", "KEY: 'maybe' is no way to have a node; KEY=true"),
        (SHARED, "nodelist: a", ""),
        (NODES, "{exclusive: user, switches: 1, begin: now, mail_type: END, array: null, container-name: a}", ""),
    ],
)  # fmt: skip
def test_options_of_sbatch_that_are_none_or_break_the_plan(words: tuple[str, ...], option: str, found: str) -> None:
    options = option if option.startswith("{") else f"{{{option}}}"
    key = f"backend.config.slurm.sbatch_options.{option.partition(':')[0]}"
    try:
        said = compile_job(Request((*words, f"backend.config={{slurm: {{sbatch_options: {options}}}}}"))).diagnostics
    except CompileError as error:
        said = error.diagnostics
    texts = [f"{each.title}; {each.hint}" for each in said if each.code == "JC4716"]
    assert [text.startswith(found.replace("KEY", key)) for text in texts] == ([True] if found else []), texts


def test_what_looks_like_those_mistakes_is_taken() -> None:
    for words in (
        ("backend.infra=aws", "backend.ports=[80, 8000-8010]", "labels.team='audio team'"),
        ("container=pod", "env=image", "image=reg.example.org:5000/team/x:1"),
        ("backend.config={kubernetes: {pod_config: {spec: {hostIPC: true, nodeSelector: {pool: a3}}}}}",),
        ("backend.extra={resources: {disk_tier: ultra}}",),
        ("backend.extra={resources: {use_spot: true, ports: [80], priority: 1000}}", any_of("aws", "gcp")),
        ("backend.extra={file_mounts: {/data: {source: 's3://data', mode: COPY}}}",),
        ("backend.extra={config: {slurm: {sbatch_options: {time: '12:00:00'}}}}",),
        ("backend.infra=slurm/bed/gpu", "queue.name=gpu", "+site.partitions={gpu: {}}"),
        ("backend.down=false", "backend.infra=aws"),
        ("backend.infra=aws", "backend.disk_size=45GiB"),
        ("backend.infra=k8s/dev", "backend.disk_size=20GiB"),
    ):
        assert refused(*PLAIN, *words) == []
    on_slurm = (*SHARED, "container=pod", "env=image", "image=x")
    assert "JC4711" in refused(*on_slurm, severity=Severity.NOTE) and refused(*on_slurm) == []


def test_a_site_may_call_its_gpus_as_it_likes() -> None:
    words = (*SHARED, "gpus=2", "gpu_type=fake")
    assert refused(*words) == [] and refused(*words, severity=Severity.WARNING) == ["JC4704"]


@pytest.mark.parametrize(
    ("infra", "gpus", "hint"),
    [
        ("aws", "3 gpu_type=H100", "gpus=1 or gpus=8"), ("gcp/us-central1", "3 gpu_type=H100", "gpus=2 or gpus=4"),
        ("azure", "4 gpu_type=H100", "gpus=2 or gpus=8"), ("aws", "2 gpu_type=A100-80GB", "gpus=8"),
        ("gcp", "12 gpu_type=A100", "gpus=8 or gpus=16"), ("lambda", "5 gpu_type=H100", "gpus=4 or gpus=8"),
        ("aws", "8 gpu_type=H100", ""), ("gcp", "4 gpu_type=H100", ""), ("runpod", "3 gpu_type=H100", ""),
        ("k8s", "3 gpu_type=H100", ""), ("null", "3 gpu_type=H100", ""),
        ("aws", "3 gpu_type=H100 backend.instance_type=p9.new", ""),
    ],
)  # fmt: skip
def test_a_number_of_gpus_that_a_cloud_does_not_sell_is_a_warning(infra: str, gpus: str, hint: str) -> None:
    found = compile_job(Request((*PLAIN, f"backend.infra={infra}", *f"gpus={gpus}".split()))).diagnostics
    hints = [each.hint for each in found if each.code == "JC4705" and each.severity is Severity.WARNING]
    assert hints == ([hint] if hint else [])


def test_the_numbers_that_clouds_sell_are_of_known_gpus_and_no_more_than_the_most() -> None:
    for kinds in SOLD.values():
        assert all(list(numbers) == sorted({*numbers}) and numbers[-1] <= GPUS[kind] for kind, numbers in kinds.items())


def test_wishes_that_no_queue_hears_are_named() -> None:
    words = (*PLAIN, "backend.infra=aws", "queue.qos=high", "hosts=node1")
    assert refused(*words, severity=Severity.NOTE).count("JC4712") == 2
    texts = {file.path: file.text for file in compile_job(Request(words)).artifacts}
    assert "- `queue.qos=high`\n" in texts["README.md"] and "- `hosts=" in texts["README.md"]


def test_pods_get_shared_memory_and_folders_of_their_nodes_beside_what_the_user_configures() -> None:
    mounts = "mounts=[{kind: host, source: /nvme, target: /data, read_only: true}]"
    image = (*PLAIN, "container=pod", "env=image", "image=x", "shm=3GiB")
    own = "backend.config={kubernetes: {pod_config: {spec: {volumes: [{name: own}], hostIPC: true}}}}"
    made = task(*image, mounts, own)
    assert made["resources"]["infra"] == "k8s", "no machine of a cloud has the folder"
    pod = made["config"]["kubernetes"]["pod_config"]["spec"]
    folder = {"name": "mount-0", "mountPath": "/data", "readOnly": True}
    assert pod["containers"] == [{"volumeMounts": [folder]}] and pod["hostIPC"] is True
    assert [volume["name"] for volume in pod["volumes"]] == ["mount-0", "dshm", "own"]
    assert pod["volumes"][1]["emptyDir"] == {"medium": "Memory", "sizeLimit": "3Gi"}
    on_aws = task(*image, "backend.infra=aws")
    assert on_aws["config"] == {"docker": {"run_options": ["--shm-size=3072m"]}}


def task(*words: str) -> dict[str, Any]:
    texts = {file.path: file.text for file in compile_job(Request(words)).artifacts}
    read: dict[str, Any] = yaml.safe_load(texts["task.sky.yaml"])
    return read


def test_every_golden_task_fits_the_schema() -> None:
    files = sorted(GOLDEN.glob("*/expected/task.sky.yaml"))
    assert len(files) >= 10
    assert [(file.parts[-3], schema.problems(yaml.safe_load(file.read_text()))) for file in files] == [
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
    assert schema.problems(change)


def test_a_managed_job_is_recovered_after_75_and_69_alone() -> None:
    words = ("backend=skypilot", "backend.managed=true", "backend.infra=slurm/bed", "storage.root=/shared/runs")
    recovery = task(*words)["resources"]["job_recovery"]
    assert recovery == {"max_restarts_on_errors": 0, "recover_on_exit_codes": [69, 75]}
    assert task(*words, "lifecycle.max_requeues=0")["resources"]["job_recovery"]["recover_on_exit_codes"] == []


def test_alternatives_on_one_slurm_are_slurm_for_all_of_the_task() -> None:
    made = task(*SHARED[:1], *SHARED[2:], any_of("slurm/a", "slurm/b/own"), "queue.name=main", "queue.account=team")
    assert [each["infra"] for each in made["resources"]["any_of"]] == ["slurm/a/main", "slurm/b/own"]
    assert made["config"]["slurm"]["sbatch_options"] == {"account": "team"}


def test_a_finding_names_the_key_that_was_typed() -> None:
    words = (*SHARED, "backend.use_spot=true", "backend.extra={resources: {ports: [80, x]}}")
    with pytest.raises(CompileError) as error:
        compile_job(Request(words))
    found = [(each.code, each.key, each.hint) for each in error.value.diagnostics]
    assert found == [
        ("JC4711", "backend.use_spot", "backend.use_spot=false"),
        ("JC4711", "backend.extra.resources.ports", "leave out backend.extra.resources.ports"),
        ("JC4717", "backend.extra.resources.ports", "backend.extra.resources.ports=[6006, 8000-8010]"),
    ]


def test_submit_looks_for_every_file_that_goes_along() -> None:
    words = (
        *PLAIN,
        "backend.file_mounts={/a: /one, /b: 's3://b'}",
        "backend.extra={file_mounts: {/c: {source: '~/two'}}}",
    )
    texts = {file.path: file.text for file in compile_job(Request(words)).artifacts}
    assert "\nlocal_files=(/one '~/two') " in texts["engine.sh"]


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
    ended, said = job("submit.sh", "--wait")
    assert ended == code, said
    assert f"return code list: {list_of_codes}" in said or not list_of_codes
    _, status = job("status.sh")
    assert f"(exit {code}" in status and "stop.sh --down" in status


def test_stop_lets_it_save_and_takes_a_cluster_of_slurm_down(folder: Path) -> None:
    job = Job(folder, program="- -")
    assert job("submit.sh")[0] == 0
    job.wait_until_up()
    code, said = job("stop.sh")
    assert code == 0 and "stopped by stop.sh" in said and "nothing costs money" in said, said
    assert (job.run / "control" / "STOP").exists()


def test_a_cluster_that_costs_money_is_named_until_it_is_down(folder: Path) -> None:
    job = Job(folder, "backend.infra=aws", "storage.run=node", "storage.root=storage", "nodes=1", program="0")
    code, said = job("submit.sh", "--wait")
    assert code == 0, said
    assert "costs money" in job("status.sh")[1]
    code, said = job("stop.sh", "--down")
    assert code == 0 and "nothing costs money" in said, said


def test_a_resume_goes_on_in_the_same_run(folder: Path) -> None:
    job = Job(folder, program="75 75")
    assert job("submit.sh", "--wait", "--run-id", "first")[0] == 75
    assert job("submit.sh", "--wait", "--resume", "first")[0] == 75
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
    [("75", 0, 2), ("69 75", 0, 3), ("75 75 75", 0, 4), ("65", 65, 1), ("1", 1, 1)],
)
def test_a_managed_job_is_recovered_by_its_codes(folder: Path, program: str, code: int, attempts: int) -> None:
    words = ("backend.managed=true", f"lifecycle.max_requeues={1 if attempts == 2 else 3}")
    job = Job(folder, *words, program=program)
    (folder / "program.py").write_text(RECOVERS)
    ended, said = job("submit.sh", "--wait")
    assert ended == code, said
    assert len([*(job.run / "artifact").iterdir()]) == attempts
    assert "managed job 1" in said or "exit" in job("status.sh")[1]


def test_a_managed_job_is_stopped_where_its_storage_is_seen(folder: Path) -> None:
    job = Job(folder, "backend.managed=true", program="- -")
    assert job("submit.sh")[0] == 0
    job.wait_until_up()
    code, said = job("stop.sh")
    assert code == 0 and "stopped by stop.sh" in said, said


def test_two_nodes_train_to_the_local_weights(folder: Path) -> None:
    train = ("task=digits", "loop.epochs=1", "launcher=spawn", "threads=1", "name=job")
    (folder / "here").mkdir()
    job = Job(folder, *train, "procs=2")
    code, said = job("submit.sh", "--wait")
    assert code == 0, said
    artifact = write_job(compile_job(Request(("backend=local", "procs=4", *train))), folder / "here" / "artifacts")
    subprocess.run([artifact / "submit.sh"], capture_output=True, check=True)
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
        assert "no task.sh in what was sent" in done.stdout and "[65]" in done.stdout, done.stdout
    else:
        assert "ends with 0" in done.stdout and job.run.name.startswith("sky-"), done.stdout


@pytest.mark.parametrize(
    ("said", "by_hand", "refused"),
    [
        ("num_nodes: 2", "num_nodes: 3", "SkyPilot gives this job 3 nodes, it was compiled for 2"),
        ('"fake:2"', '"fake:1"', "SkyPilot gives this job 1 GPUs on each node, it was compiled for 2"),
        ('  accelerators: "fake:2"\n', "", "SkyPilot gives this job 0 GPUs on each node, it was compiled for 2"),
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
    assert job("submit.sh")[0] == 0
    job.wait_until_up()
    (cluster,) = (folder / ".stand_in_sky").iterdir()
    command = ["sky", *(word.replace("CLUSTER", cluster.name) for word in cancel)]
    subprocess.run(command, env=job.environment, check=True, timeout=60)
    state = cluster / "1.json"
    wait_for(lambda: json.loads(state.read_text())["status"] != "RUNNING", "its end")
    assert json.loads(state.read_text())["status"] == "CANCELLED"
    wait_for(lambda: not pids(str(folder)), "no process of it anywhere")
    assert [path.name for path in (job.run / "artifact").iterdir()] == ["0"] and len([*cluster.glob("*.json")]) == 1
    code, said = job("status.sh")
    assert code == 0 and "stopped early (exit 75)" in said and "SkyPilot says CANCELLED" in said, said


def test_a_secret_goes_along_and_is_in_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(folder, "secrets.TOKEN=env:MY_TOKEN", "nodes=1", program="0")
    monkeypatch.delenv("MY_TOKEN", raising=False)
    assert job("submit.sh") == (
        65,
        "error: secret: the environment variable MY_TOKEN is not set\n  hint: export MY_TOKEN before submit.sh\n",
    )
    monkeypatch.setenv("MY_TOKEN", "hidden-value")
    code, said = job("submit.sh", "--wait")
    assert code == 0, said
    assert not [
        file for file in folder.rglob("*") if file.is_file() and "hidden-value" in file.read_text(errors="replace")
    ]


@pytest.mark.parametrize("experiment", ["aorta", "audio_encoder", "qwen_image", "slurm_ddp"])
def test_the_experiments_are_the_same_job_as_on_slurm(experiment: str) -> None:
    words = (f"+experiment={experiment}", "gpu_type=H100", "storage.root=/shared/runs")
    here = compile_job(Request((*words, "backend=skypilot", "backend.infra=slurm/bed")))
    there = compile_job(Request((*words, "backend=slurm")))
    for path in ("train.json", "node.sh"):
        one, other = (next(file.text for file in job.artifacts if file.path == path) for job in (here, there))
        assert one == other


# ---- runs in a bucket ----------------------------------------------------------------------------------------------

STEPS = """
import hashlib, json, os, pathlib, sys, time
from jobc_trainer import checkpoint_store as store
rank, root = os.environ["RANK"], pathlib.Path(os.environ["JOBC_RUN_DIR"], "checkpoints")
folder, _ = store.newest_verified(root)
state = json.loads((folder / "state.json").read_text()) if folder and rank == "0" else {"step": 0, "weights": ""}
print("begins at", state["step"], flush=True)
while state["step"] < int(sys.argv[1]):
    time.sleep(0.3)
    state = {"step": state["step"] + 1, "weights": hashlib.sha256(json.dumps(state).encode()).hexdigest()}
    if state["step"] % 5 == 0 and rank == "0":
        store.save(root, state["step"], {"state.json": json.dumps(state).encode()}, keep=2)
print("ends with", state["weights"], flush=True)
"""


@pytest.fixture(scope="module")
def bucket() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


def test_a_managed_job_goes_on_from_its_bucket_and_is_stopped_through_it(
    folder: Path, bucket: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    keys = [f"secrets.{name}=env:{name}" for name in bucket.environment]
    words = (*bucket.overrides, *keys, "backend.managed=true", "backend.infra=aws", f"storage.scratch={folder}/scratch")
    job = Job(folder, *words, program="60")
    (folder / "program.py").write_text(STEPS)
    assert job("submit.sh", "--run-id", "first")[0] == 0
    wait_for(lambda: any(key.endswith("/MANIFEST.json") for key in bucket.listed()), "a checkpoint in the bucket")
    for pid in pids("depot.py", f"{folder}/scratch/node_01"):
        os.kill(pid, signal.SIGTERM)  # as when that machine is about to be taken away
    wait_for(lambda: "first/starts/00001/node_01" in " ".join(bucket.listed()), "the next attempt")
    wait_for(lambda: "done (exit 0)" in job("status.sh")[1], "its end")
    for node in (0, 1):
        assert not (folder / "scratch" / f"node_{node:02}" / "job" / "first" / "artifact" / "0").exists(), (
            "the bucket counts"
        )
    said = job("logs.sh", "--rank", "0")[1]
    state: dict[str, object] = {"step": 0, "weights": ""}
    for step in range(1, 61):
        state = {"step": step, "weights": hashlib.sha256(json.dumps(state).encode()).hexdigest()}
    assert f"ends with {state['weights']}" in said and "begins at 0" in said, said
    assert re.search("begins at [1-9]", said), said

    assert job("submit.sh", "--run-id", "second")[0] == 0
    wait_for(lambda: "second/state/node_01" in " ".join(bucket.listed()), "the start of another run")
    code, said = job("stop.sh")
    assert code == 0 and "stopped by stop.sh" in said and "cannot be reached" not in said, said
    assert job("clean.sh", "--keep", "0", "--yes")[0] == 0 and not bucket.listed()


def pids(*words: str) -> list[int]:
    """Of the processes of this machine with all these in their command lines."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if all(word in file.read_text(errors="replace") for word in words):
                found.append(int(file.parent.name))
    return found
