"""The equivalence check: an edit of what an engine is told beside the plan's own facts is noticed as well."""

from __future__ import annotations

import re

import pytest

from jobc.compiler.driver import Request, compile_job
from jobc.compiler.equivalence.check import check

from .edited_jobs import files_of

SUBMIT, BATCH, NODE, CLIENT = "submit.sh", "job.sbatch", "node.sh", "client.sh"
TASK, SKY = "task.sh", "task.sky.yaml"
JOB, BUNDLE, POD = "job.yaml", "kustomization.yaml", "pod.yaml"
EDITS = [  # job, file, what stands there, what somebody makes of it, what is said
    ("ssh", CLIENT, "  -o BatchMode=yes\n", "", "ssh waits for a password"),
    ("ssh", CLIENT, "Checking=yes", "Checking=no", "StrictHostKeyChecking is none of"),
    ("spawn", CLIENT, "  -o StrictHostKeyChecking=yes\n", "", "StrictHostKeyChecking is none of"),
    ("clush", CLIENT, " -n -- %host", " -- %host", "without -n the first ssh reads"),
    ("clush", CLIENT, "  -o BatchMode=yes\n", "", "ssh waits for a password"),
    ("spawn", CLIENT, "CountMax=3", "CountMax=30", "gone ends after 150 s, not 15 s"),
    ("ssh", CLIENT, "  -o ServerAliveInterval=5\n", "", "gone ends never"),
    ("ssh", NODE, 'exec "$python" -I -S "$rt/supervise.py"', 'exec $python -I -S "$rt/supervise.py"', ""),
    ("slurm", BATCH, "  --mpi=none \\\n  --kill", "  --mpi=none --time=5 \\\n  --kill", "srun is called with --time"),
    ("slurm", BATCH, "  --mpi=none \\\n  --kill", "  --mpi=none --gpu-bind=none \\\n  --kill", "with --gpu-bind"),
    ("slurm", BATCH, "#SBATCH --requeue", "#SBATCH --requeue\n#SBATCH --export=A=1,2", "--export, which no job does"),
    ("slurm", BATCH, "#SBATCH --requeue", "#SBATCH --requeue\n#SBATCH --begin=now+10hours", "backend.extra.begin: "),
    (
        "slurm",
        BATCH,
        "max_requeues=2",
        "max_requeues=2\nexport CUDA_VISIBLE_DEVICES=0",
        "CUDA_VISIBLE_DEVICES: ranks? 0.* ha[sv]e?",
    ),
    ("slurm", NODE, 'cd -- "$code"\n', 'cd -- "$code"; export LD_PRELOAD=x.so\n', "LD_PRELOAD: ranks 0-3 have"),
    (
        "slurm",
        NODE,
        "export JOBC_LAUNCHER=jobc",
        "export JOBC_LAUNCHER=jobc NCCL_IB_DISABLE=1",
        "NCCL_IB_DISABLE: rank",
    ),
    ("ssh", TASK, "unset JOBC_INIT_FROM", "export JOBC_INIT_FROM=x", "JOBC_INIT_FROM: ranks 0-3 have"),
    (
        "skypilot",
        SKY,
        "resources:\n",
        "resources:\n  use_spot: true\n",
        "backend.use_spot: .* has true, the plan false",
    ),
    ("trainjob", JOB, "  trainer:\n", "  activeDeadlineSeconds: 60\n  trainer:\n", "backend.deadline: .* has 60"),
    ("jobset", JOB, "backoffLimit: 0", "backoffLimit: 0\n        backoffLimitPerIndex: 1", "extra.JobSet.* has it"),
    ("kubernetes", JOB, "restartPolicy: Never", "restartPolicy: Never\n      schedulerName: x", "spec.schedulerName: "),
    (
        "kubernetes",
        JOB,
        '            nvidia.com/gpu: "2"\n          limits',
        "          limits",
        "differ in memory or GPUs",
    ),
    (
        "kubernetes",
        JOB,
        "containers:\n      - name: node",
        "containers:\n      - {name: b, image: b}\n      - name: node",
        "extra.Pod.spec.containers.b: .* has it, and nothing in the plan asks",
    ),
    (
        "kubernetes",
        JOB,
        "restartPolicy: Never",
        "restartPolicy: Never\n      serviceAccountName: a",
        "extra.Pod.spec.serviceAccountName: .* has it",
    ),
    ("skypilot", SKY, "down: true", "down: false", "backend.down: .* has false, the plan true"),
    (
        "skypilot",
        SKY,
        "\nenvs:\n",
        '\nenvs:\n  CUDA_VISIBLE_DEVICES: "0"\n',
        "CUDA_VISIBLE_DEVICES: ranks? 0.* ha[sv]e?",
    ),
    ("slurm", BATCH, 'TERM "$run" || true\' USR2', 'TERM "$run" || true\' USR1', "does not trap USR2"),
    ("slurm", BATCH, "--signal=B:USR2@", "--signal=B:USR1@", "does not trap USR1"),
    ("slurm", BATCH, "#SBATCH --signal=B:USR2@100\n", "", "asks for no --signal"),
    ("slurm", BATCH, 'signal_steps TERM "$run"', 'signal_steps KILL "$run"', "at signal USR2: "),
    ("slurm", BATCH, "asked=time;", "asked=term;", "at signal USR2: "),
    ("slurm", BATCH, "trap 'asked=${asked:-term}' TERM\n", "", "does not trap TERM"),
    ("slurm", BATCH, "--export=ALL", "--export=NONE", "without --export=ALL: the tasks would lack"),
    ("slurm", BATCH, "  --mpi=none \\\n  --kill", "  --mpi=pmix \\\n  --kill", "without --mpi=none: a plugin"),
    ("slurm", BATCH, "unset SLURM_CPUS_PER_TASK SRUN", "unset SRUN", "srun would follow SLURM_CPUS_PER_TASK of"),
    ("slurm", BATCH, '"${!SLURM_GPU_BIND@}" ', "", "srun would follow SLURM_GPU_BIND of"),
    ("slurm", BATCH, "restarts > max_requeues", "restarts > 9", "takes restart . otherwise than max_requeues=2"),
    (
        "slurm",
        BATCH,
        "restarts > max_requeues",
        "restarts >= max_requeues",
        "takes restart . otherwise than max_requeues=2",
    ),
    ("slurm", BATCH, 'end_left_behind "$srun" 100', 'end_left_behind "$srun" 10', "ends srun 10 s after a failure"),
    ("slurm", BATCH, "&& echo 0 ||", "&& echo 9 ||", "takes restart 2 otherwise"),
    ("slurm", BATCH, "  --nodes=2 \\\n", "", "srun starts tasks with --nodes=None, and the job has 2"),
    ("slurm", BATCH, "srun --nodes=2 ", "srun --nodes=3 ", "srun below timeout starts tasks with --nodes=3"),
    ("slurm", BATCH, "code=0\nwait", "code=1\nwait", "does not end as its srun"),
    ("slurm", BATCH, 'leave "$code" "', ': "$code" "', "does not end as its srun"),
    ("slurm", BATCH, "#SBATCH --job-name=base\n", "", 'name: what slurm reads has "job.sbatch", the plan "base"'),
    ("slurm", BATCH, "#SBATCH --open-mode=append\n", "", "would write over its log"),
    ("slurm", BATCH, "#SBATCH --requeue", "#SBATCH --requeue\n#SBATCH --constraint=a", "backend.constraint: "),
    ("slurm", BATCH, 'task.sh" "$run" "$attempt" train', 'task.sh" "$artifact" "$attempt" train', "run.root: "),
    ("slurm", SUBMIT, "(clean sbatch", "(sbatch", "calls sbatch with SLURM_CPUS_PER_GPU, "),
    ("slurm", SUBMIT, "/logs/slurm-%j.log", "/slurm-%j.log", "the log are not those of the run"),
    (
        "slurm",
        SUBMIT,
        '"$copy/job.sbatch" "$run" "$attempt"',
        '"$copy/job.sbatch" "$copy" 0',
        "hands over <run>/artifact/0/j",
    ),
    ("slurm", SUBMIT, "code_max_bytes=", "code_max_bytes=1", "code_max_bytes is 1"),
    ("slurm", "task.sh", "export JOBC_HEAD_PORT=0", "export JOBC_HEAD_PORT=1", "JOBC_HEAD_PORT is 1, the plan has 0"),
    (
        "kubernetes",
        JOB,
        'PORT\n          value: "0"',
        'PORT\n          value: "1"',
        "rendezvous.port: the ranks have 1",
    ),
    ("slurm", NODE, "rendezvous_port=0", "rendezvous_port=29501", "rendezvous_port is 29501, the plan has 0"),
    ("ssh", NODE, 'unset "${!PET_@}" "${!TORCHELASTIC_@}"', ":", r"start 0\) leaves PET_NNODES as a shell outside"),
    ("ssh", NODE, 'unset "${!PET_@}" "${!TORCHELASTIC_@}"', 'unset "${!PET_@}"', "leaves TORCHELASTIC_RUN_ID as"),
    ("c10d", NODE, "unset TORCH_DISABLE_SHARE_RDZV_TCP_STORE", ":", "leaves TORCH_DISABLE_SHARE_RDZV_TCP_STORE as"),
    ("ssh", NODE, "; then find_network; fi", "; then :; fi", r"start 1\) does not call find_network: NCCL"),
    ("ssh", NODE, "find_head_port\n", "", r"start 0\) does not call find_head_port"),
    ("ssh", NODE, "  refuse_live_node\n", "", "does not call refuse_live_node"),
    ("docker", NODE, "settle_in\n", "", "does not call settle_in"),
    ("mpirun", NODE, "then need_mpirun;", "then :;", "does not call need_mpirun"),
    ("pods", NODE, "need_module deepspeed\n", "", "does not call need_module deepspeed"),
    ("pods", "engine.sh", "start_timeout_s=", "start_timeout_s=1", "start_timeout_s is 1"),
    ("kubernetes", BUNDLE, "resources:\n- job.yaml\n", "", "resources.0 is None, and must be 'job.yaml': kubectl"),
    (
        "kubernetes",
        BUNDLE,
        "lib--jobc_trainer--loop.py=lib/jobc_trainer/loop.py",
        "x=x",
        "not bring lib/jobc_trainer/loop.py",
    ),
    ("kubernetes", BUNDLE, '  - "train.json=train.json"\n', "", "does not bring train.json"),
    (
        "kubernetes",
        BUNDLE,
        '  - "train.json=train.json"\n',
        '  - "train.json=train.json"\n  - "x=x"\n',
        "which is not there",
    ),
    ("kubernetes", BUNDLE, "- name: base-", "- name: bass-", "configMapGenerator.\\*.name is 'bass-"),
    ("kubernetes", BUNDLE, "disableNameSuffixHash: true", "disableNameSuffixHash: false", "wait for their files"),
    (
        "kubernetes",
        JOB,
        "configMap:\n          name: base-",
        "configMap:\n          name: bass-",
        "files.configMap.name is 'bass-",
    ),
    (
        "kubernetes",
        JOB,
        "  completionMode",
        "  suspend: true\n  completionMode",
        "Job.spec.suspend would break the job: no pod",
    ),
    ("kubernetes", JOB, "restartPolicy: Never", "restartPolicy: OnFailure", "spec.restartPolicy is 'OnFailure'"),
    ("kubernetes", JOB, "enableServiceLinks: false", "enableServiceLinks: true", "enableServiceLinks is True"),
    (
        "kubernetes",
        JOB,
        "publishNotReadyAddresses: true",
        "publishNotReadyAddresses: false",
        "node 0 would have no name",
    ),
    ("kubernetes", JOB, "clusterIP: None\n  ", "", "Service.spec.clusterIP is None, and must be 'None'"),
    (
        "kubernetes",
        JOB,
        "selector:\n    jobc/job: base-",
        "selector:\n    jobc/job: bass-",
        "selector.jobc/job is 'bass",
    ),
    ("kubernetes", JOB, "containerName: node", "containerName: nod", "is about containers nod, preflight, not node, p"),
    ("kubernetes", JOB, "medium: Memory", 'medium: ""', "emptyDir.medium is ''"),
    ("kubernetes", JOB, "podReplacementPolicy: Failed", "podReplacementPolicy: TerminatingOrFailed", "still saves"),
    ("kubernetes", JOB, "type: DisruptionTarget", "type: Disruption", "an eviction would count"),
    ("kubernetes", JOB, 'mountPath: "/dev/shm"', 'mountPath: "/dev/shn"', "volumeMounts.shm.mountPath is '/dev/shn'"),
    (
        "kubernetes",
        JOB,
        "      - name: artifact\n        emptyDir: {}\n",
        "",
        "mounts artifact, and the pod has no such",
    ),
    ("kubernetes", POD, "medium: Memory", 'medium: ""', "pod.yaml: its pod has another volumes than"),
    (
        "kubernetes",
        POD,
        "automountServiceAccountToken: false",
        "automountServiceAccountToken: true",
        "another automount",
    ),
    ("jobset", JOB, "replicas: 1", "replicas: 2", "each node would start several times"),
    ("jobset", JOB, "publishNotReadyAddresses: true", "publishNotReadyAddresses: false", "node 0 would have no name"),
    ("jobset", JOB, "action: FailJobSet", "action: RestartJobSet", "what is broken would start again"),
    ("jobset", JOB, "jobset.sigs.k8s.io/jobset-uid", "batch.kubernetes.io/controller-uid", "would not know its run"),
    ("trainjob", JOB, "    numNodes: 2", "    numNodes: 3", "start another number of nodes"),
    (
        "trainjob",
        JOB,
        "kind: TrainingRuntime\n    name: base",
        "kind: TrainingRuntime\n    name: bass",
        "no such runtime",
    ),
    ("trainjob", BUNDLE, "  order: fifo", "  order: legacy", "the TrainJob would come before its runtime"),
]


@pytest.mark.parametrize(
    ("job", "path", "before", "after", "said"), EDITS, ids=[f"{e[0]}-{e[1]}-{i}" for i, e in enumerate(EDITS)]
)
def test_an_edit_of_what_the_engine_is_told_is_noticed(job: str, path: str, before: str, after: str, said: str) -> None:
    files = files_of(job)
    assert before in files[path], files[path]
    found = check({**files, path: files[path].replace(before, after)}).differences
    assert any(re.search(said, text) for text in found), found


@pytest.mark.parametrize(("before", "after", "key"), [
    ("    pip install ours\n", "    pip install theirs\n", "backend.setup"),
    ("    nvidia-smi\n", "", "backend.setup"),
    ('ref: "0123', 'ref: "9123', "code.commit"),
    ("github.com/example", "github.com/else", "code.repository"),
    ('- "6006"', '- "6007"', "backend.ports"),
    ("disk_tier: high", "disk_tier: low", "backend.disk_tier"),
])  # fmt: skip
def test_what_skypilot_sends_and_prepares_is_the_plans(before: str, after: str, key: str) -> None:
    words = (
        "name=x", "backend=skypilot", "nodes=2", "gpus=1", "gpu_type=H100", "storage.run=node", "code=git",
        "code.repository=https://github.com/example/train", f"code.commit={'0123456789' * 4}", "backend.ports=[6006]",
        'backend.setup=["pip install ours", "mkdir x", "nvidia-smi"]', "backend.disk_tier=high",
    )  # fmt: skip
    made = compile_job(Request(words, ("train.py",)))
    files = {artifact.path: artifact.text for artifact in made.artifacts}
    assert check(files).differences == ()
    assert before in files[SKY], files[SKY]
    found = check({**files, SKY: files[SKY].replace(before, after)}).differences
    assert any(line.startswith(f"{key}: ") for line in found), found


def test_a_managed_job_that_nothing_starts_again_is_as_in_its_plan() -> None:
    words = ("backend=skypilot", "backend.managed=true", "backend.infra=slurm/bed", "storage.root=/shared/runs")
    once, again = ({a.path: a.text for a in compile_job(Request(given)).artifacts}
                   for given in ((*words, "lifecycle.max_requeues=0"), words))  # fmt: skip
    assert check(once).differences == check(again).differences == ()
    both, none = "recover_on_exit_codes:\n    - 69\n    - 75\n", "recover_on_exit_codes: []\n"
    assert both in again[SKY] and none in once[SKY]
    found = check({**again, SKY: again[SKY].replace(both, none)}).differences
    assert any(line.startswith("lifecycle.max_requeues: ") for line in found), found
