"""The equivalence check: every golden is read back as its plan says, and an edit of any fact is noticed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from jobc.compiler.cli import main
from jobc.compiler.driver import Request, compile_job
from jobc.compiler.equivalence.check import Checked, beside, check
from jobc.compiler.golden import is_sweep, read_case

from .edited_jobs import COMMAND, OF, files_of

GOLDEN = Path(__file__).parents[1] / "golden"
BACKENDS = ("local", "ssh", "pdsh", "accelerate", "slurm", "kubernetes", "skypilot")


def cases(backend: str) -> list[Path]:
    """Those that compile; the experiments are the same jobs on each backend, so one of them stands for all."""
    found = [case for case in sorted((GOLDEN / backend).iterdir()) if not (case / "expected.txt").exists()]
    return [
        c for c in found if not is_sweep(c) and (not c.name.startswith("experiment_") or c.name[11:] == "qwen_image")
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_golden_is_read_back_as_its_plan_says(backend: str) -> None:
    assert len(cases(backend)) >= 3
    for case in cases(backend):
        made = compile_job(read_case(case))
        found = check({artifact.path: artifact.text for artifact in made.artifacts})
        assert not found.differences, f"{case.name}: {found.differences}"
        assert found.ranks and len(found.compared) > 80, case.name
        assert all(len(why.split()) >= 3 for why in found.waived.values())


@pytest.mark.parametrize("case", ["one_task_per_rank", "apptainer_file_and_modules"])
def test_preflight_is_asked_alike_where_the_engine_or_a_container_starts_the_ranks(case: str) -> None:
    (folder,) = GOLDEN.glob(f"*/{case}")
    files = {artifact.path: artifact.text for artifact in compile_job(read_case(folder)).artifacts}
    assert check(files, thorough=True).differences == ()
    assert '    --gpus="$gpus"\n' in files["node.sh"]
    found = check({**files, "node.sh": files["node.sh"].replace('    --gpus="$gpus"\n', "")}, thorough=True).differences
    assert any("preflight.py gets --gpus=None" in text for text in found), found


@pytest.mark.parametrize("job", OF)
def test_the_jobs_that_are_edited_below_are_sound(job: str) -> None:
    assert check(files_of(job), thorough=True).differences == ()


@pytest.mark.parametrize("job", OF)
def test_a_point_of_a_sweep_is_as_sound(job: str) -> None:
    files = files_of(job, "point=seed=1")
    assert "this_job base+seed=1 " in files["submit.sh"]
    assert check(files).differences == ()


def test_a_script_of_another_point_is_noticed() -> None:
    files = files_of("ssh", "point=seed=1")
    files["stop.sh"] = files["stop.sh"].replace("this_job base+seed=1 ", "this_job base+seed=2 ")
    (found,) = check(files).differences
    assert found.endswith("this_job is told base+seed=2 runs, the plan has base+seed=1 in runs")


NODE, TASK, ENGINE, CLIENT, SUBMIT = "node.sh", "task.sh", "engine.sh", "client.sh", "submit.sh"
EDITS = [  # job, file, what stands there, what somebody makes of it, the fact that is named
    ("ssh", NODE, "nodes=2", "nodes=3", "topology.nodes"),
    ("ssh", NODE, "procs=2", "procs=1", "topology.procs"),
    ("ssh", NODE, "gpus=2", "gpus=1", "topology.gpus"),
    ("ssh", NODE, "  'it'\"'\"'s $$5'", "  it's", "node.sh"),
    ("ssh", NODE, "  0.1\n", "  0.2\n", "command"),
    ("ssh", NODE, "  train.py\n", "", "command"),
    ("ssh", NODE, "export A='a '\"'\"'b'\"'\"' $c'", "export A=\"a 'b' $c\"", "node.sh starts nothing"),
    ("ssh", NODE, "grace_s=90", "grace_s=60", "lifecycle.grace_s"),
    ("ssh", NODE, "max_restarts=1", "max_restarts=0", "lifecycle.max_restarts"),
    ("ssh", NODE, "rendezvous_timeout_s=300", "rendezvous_timeout_s=30", "rendezvous.timeout_s"),
    ("ssh", NODE, "interface=eth0", "interface=eth1", "network.interface"),
    ("ssh", NODE, "threads_per_rank=3", "threads_per_rank=1", "threads_per_rank"),
    ("ssh", NODE, "secret_env T TT", "secret_env T OTHER", "secrets.T"),
    ("ssh", NODE, "conda activate own\n", "true\n", "setup"),
    ("ssh", NODE, "code_root=.", "code_root=src", "code.root"),
    ("ssh", NODE, "launcher=torchrun", "launcher=spawn", "launcher"),
    ("ssh", NODE, '      --node-rank="$JOBC_NODE_RANK"\n', "", "--node-rank"),
    ("ssh", NODE, '"${doubled[@]:1}"', '"${rank[@]:1}"', "command"),
    ("ssh", NODE, "      --no-python\n", "", "--no-python"),
    ("ssh", NODE, '"$JOBC_HEAD_PORT" "$rendezvous_timeout_s" -- "${launch[@]}"',
     '29500 300 -- "${launch[@]}"', "waits for"),
    ("ssh", TASK, "JOBC_NODE_RANK=$rank", "JOBC_NODE_RANK=0", "told two numbers of its node: 0 and 1"),
    ("ssh", TASK, "rank=$((rank - 1))", "rank=$rank", "world_size"),
    ("ssh", TASK, "export JOBC_TIME_LIMIT_S=3600", "export JOBC_TIME_LIMIT_S=600", "lifecycle.time_limit_s"),
    ("ssh", TASK, "export JOBC_HEAD_PORT=0", "export JOBC_HEAD_PORT=$RANDOM", "rendezvous"),
    ("ssh", TASK, "export JOBC_HEAD_ADDR=", "export JOBC_HEAD=", "node 0 is node1"),
    ("ssh", NODE, '      --rdzv-conf="timeout=$rendezvous_timeout_s"\n', "", "--rdzv-conf"),
    ("ssh", NODE, "export JOBC_TRAIN_JSON=", "export JOBC_TRAIN=", "JOBC_TRAIN_JSON"),
    ("ssh", NODE, "export JOBC_JOB_ID=", "export JOBC_ID=", "JOBC_ID is set, and nothing reads it"),
    ("ssh", "hosts.txt", "node2\n", "node3\n", "resources.hosts"),
    ("ssh", ENGINE, 'tail -n +2 -- "$hosts" >"$part"', 'tail -n +3 -- "$hosts" >"$part"', "submit.sh starts"),
    ("ssh", SUBMIT, "this_job base runs", "this_job base other", "run.root"),
    ("ssh", "train.json", '"seed": 0', '"seed": 1', "train.seed"),
    ("c10d", NODE, "is_host=$((JOBC_NODE_RANK == 0))", "is_host=1", "is_host"),
    ("c10d", NODE, ",read_timeout=$rendezvous_timeout_s", "", "read_timeout"),
    ("c10d", NODE, '      --rdzv-id="$JOBC_RUN_ID.$JOBC_ATTEMPT"\n', "", "--rdzv-id"),
    ("c10d", NODE, "      --rdzv-backend=c10d ", "      --rdzv-backend=etcd ", "--node-rank"),
    ("docker", NODE, "image=x:1", "image=x:2", "container.image"),
    ("docker", NODE, "  /in /out ro", "  /in /out rw", "mounts"),
    ("docker", NODE, "shm_bytes=1073741824", "shm_bytes=1024", "resources.shm_bytes"),
    ("docker", NODE, "export JOBC_DATA_DIR=/data", "export JOBC_DATA_DIR=/date", "JOBC_DATA_DIR"),
    ("accelerate", "accelerate.yaml", "num_processes: 4", "num_processes: 2", "topology.world_size"),
    ("accelerate", NODE, '      --machine_rank "$JOBC_NODE_RANK"\n', "", "--machine-rank"),
    ("mpirun", NODE, '-np "$((nodes * procs))"', '-np "$nodes"', "mpirun starts"),
    ("mpirun", NODE, "exec ${words[*]@Q}", "exec ${words[*]}", "starts no rank"),
    ("mpirun", NODE, "cd -- ${PWD@Q}", "cd -- ${TMPDIR@Q}", "mpirun starts the ranks in"),
    ("mpirun", NODE, "export JOBC_MPI_RANK=", "JOBC_MPI_RANK=", "starts no rank"),
    ("spawn", NODE, "export JOBC_PROCS=$procs", "export JOBC_PROCS=1", "topology.world_size"),
    ("spawn", CLIENT, "command+=' %h'", "command+=' node1'", "JOBC_NODE_RANK|node|resources.hosts|world_size"),
    ("spawn", NODE, "code_kind=shared", "code_kind=snapshot", "code.kind"),
    ("slurm", "job.sbatch", "#SBATCH --nodes=2", "#SBATCH --nodes=3", "srun starts"),
    ("slurm", "job.sbatch", "#SBATCH --gpus-per-node=2", "#SBATCH --gpus-per-node=1", "topology.gpus"),
    ("slurm", "job.sbatch", "#SBATCH --time=0-01:00:00", "#SBATCH --time=01:00", "lifecycle.time_limit_s"),
    ("slurm", "job.sbatch", "#SBATCH --mem=64G", "#SBATCH --mem=64", "resources.mem_bytes"),
    ("slurm", "job.sbatch", "#SBATCH --mem=64G\n", "", "resources.mem_bytes"),
    ("slurm", "job.sbatch", "#SBATCH --cpus-per-task=8", "#SBATCH --cpus-per-task=4", "cpus-per-task"),
    ("slurm", "job.sbatch", "USR2@100", "USR2@30", "lifecycle.grace_s"),
    ("slurm", "job.sbatch", "max_requeues=2", "max_requeues=9", "lifecycle.max_requeues"),
    ("slurm", "job.sbatch", "#SBATCH --requeue", "#SBATCH --no-requeue", "lifecycle.max_requeues"),
    ("slurm", "job.sbatch", "#SBATCH --partition=gpu\n", "", "queue.name"),
    ("slurm", "job.sbatch", "--account=lab", "--account=lob", "queue.account"),
    ("slurm", "job.sbatch", "afterok:12", "afterok:21", "queue.after"),
    ("slurm", "job.sbatch", "--nodelist=node1,node2", "--nodelist=node1,node3", "resources.hosts"),
    ("slurm", "job.sbatch", "  --kill-on-bad-exit=0 \\\n", "", "--kill-on-bad-exit"),
    ("slurm", "job.sbatch", '"$artifact/task.sh" "$run"', '"$artifact/task.sh" /other', "run.root"),
    ("slurm", TASK, "JOBC_NODE_RANK=$SLURM_NODEID", "JOBC_NODE_RANK=$SLURM_PROCID", None),
    ("slurm", TASK, 'node.sh" "$SLURM_NODEID"', 'node.sh" "$SLURM_LOCALID"', "world_size"),
    ("kubernetes", "job.yaml", "completions: 2", "completions: 3", "parallelism"),
    ("kubernetes", "job.yaml", "backoffLimit: 4", "backoffLimit: 1", "lifecycle.max_requeues"),
    ("kubernetes", "job.yaml", "terminationGracePeriodSeconds: 100",
     "terminationGracePeriodSeconds: 30", "lifecycle.grace_s"),
    ("kubernetes", "job.yaml", "image: \"x:1\"", "image: \"x:2\"", "container.image"),
    ("kubernetes", "job.yaml", "          limits:\n            memory: \"64Gi",
     "          limits:\n            memory: \"63Gi", "resources.mem_bytes"),
    ("kubernetes", "job.yaml", "sizeLimit: \"1Gi", "sizeLimit: \"1Mi", "resources.shm_bytes"),
    ("kubernetes", "job.yaml", "claimName: shared", "claimName: other", "mounts"),
    ("kubernetes", "job.yaml", "key: key", "key: kez", "secrets.T"),
    ("kubernetes", "job.yaml", "queue-name: team", "queue-name: teen", "queue.name"),
    ("kubernetes", "job.yaml", "NVIDIA-H100-NVL", "NVIDIA-A100-NVL", "resources.gpu_type"),
    ("kubernetes", "job.yaml", "value: \"3600\"", "value: \"0\"", "lifecycle.time_limit_s"),
    ("kubernetes", "job.yaml", "value: \"3600\"", "value: 3600", r"JOBC_TIME_LIMIT_S\.value: 3600 is no text"),
    ("kubernetes", "job.yaml", "value: \"/s/runs\"", "value: \"/runs\"", "run.root"),
    ("kubernetes", "job.yaml", "        - 75\n", "", "podFailurePolicy"),
    ("kubernetes", "job.yaml", "/s/runs\"\n        resources", "/t\"\n        resources", "another JOBC_RUN_ROOT"),
    ("kubernetes", "kustomization.yaml", "  - \"node.sh=node.sh\"\n", "", "kustomization.yaml"),
    ("kubernetes", TASK, '"$JOBC_JOB_UID" 2 1800', '"$JOBC_JOB_UID" 5 1800', "lifecycle.max_requeues"),
    ("skypilot", "task.sky.yaml", "num_nodes: 2", "num_nodes: 4", "topology.nodes|gives this job"),
    ("skypilot", "task.sky.yaml", "H100:2", "H100:1", "topology.gpus|gives this job"),
    ("skypilot", "task.sky.yaml", "cpus: \"8+\"", "cpus: \"4+\"", "resources.cpus"),
    ("skypilot", "task.sky.yaml", "memory: \"64+\"", "memory: \"32+\"", "resources.mem_bytes"),
    ("skypilot", "task.sky.yaml", "team: a", "team: b", "labels.team"),
    ("skypilot", TASK, "JOBC_NODE_RANK=$SKYPILOT_NODE_RANK", "JOBC_NODE_RANK=0", "node|world_size"),
    ("skypilot", TASK, "JOBC_TIME_LIMIT_S=3600", "JOBC_TIME_LIMIT_S=36", "lifecycle.time_limit_s"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("job", "path", "before", "after", "fact"), EDITS, ids=[f"{e[0]}-{e[1]}-{i}" for i, e in enumerate(EDITS)]
)
def test_an_edit_of_one_fact_is_noticed(job: str, path: str, before: str, after: str, fact: str | None) -> None:
    files = files_of(job)
    assert before in files[path], f"{path} has no {before!r}:\n{files[path]}"
    times = -1 if path == "job.yaml" else 1  # where two containers say the same
    found = check({**files, path: files[path].replace(before, after, times)})
    if fact is None:  # no job differs by it: node.sh takes the number from its first word, the rest is there already
        assert not found.differences
    else:
        assert any(re.search(fact, text) for text in found.differences), found.differences


BROKEN = [  # job, file, what stands there (None: the whole file), what is there instead (None: no file), what is said
    ("kubernetes", "job.yaml", "apiVersion: v1\n", "{\n", r"^job\.yaml:\d+:\d+: this is no YAML"),
    ("kubernetes", "job.yaml", None, None, r"^job\.yaml is not there$"),
    ("kubernetes", "job.yaml", None, "[1]\n", r"^job\.yaml: it must be a mapping"),
    ("kubernetes", "job.yaml", "spec:\n", "sepc:\n", r"^job\.yaml:\d+: \w+ has no field sepc$"),
    ("kubernetes", "job.yaml", "completions: 2", "completions: two", r"\d+: Job\.spec\.completions: 'two' is"),
    ("kubernetes", "job.yaml", "  completions: 2\n", "", r"^job\.yaml has no Job with pods in it$"),
    ("kubernetes", "job.yaml", "memory: \"64Gi\"", "memory: \"64.5Gi\"", r"^resources\.mem_bytes: "),
    ("kubernetes", "job.yaml", "memory: \"64Gi\"", "memory: \"lots\"", r"'lots' is no quantity such as 64Gi"),
    ("kubernetes", "job.yaml", "        - init\n", "", r"^backend\.preflight: "),
    ("kubernetes", "task.sh", "    --procs=2\n", "    --procs=3\n", r"^topology\.procs: "),
    ("kubernetes", "kustomization.yaml", "configMapGenerator:", "configMap:", r"there is no configMapGenerator beside"),
    ("kubernetes", "pod.yaml", "value: \"3600\"", "value: 3600", r"^pod\.yaml:\d+: Pod\..*_LIMIT_S\.value: 3600 is no"),
    ("skypilot", "task.sky.yaml", "JOBC_RUN_ID: \"\"", "JOBC_RUN_ID: 7", r"^task\.sky\.yaml: envs\.JOBC_RUN_ID: "),
    ("skypilot", "task.sky.yaml", "num_nodes: 2", "num_nodes: two", r"^task\.sky\.yaml: num_nodes: "),
    ("accelerate", "accelerate.yaml", "num_processes: 4", "num_processes: four", "must be a whole number$"),
    ("accelerate", "accelerate.yaml", None, None, r"accelerate\.yaml is not there"),
    ("ssh", "train.json", None, None, r"^train\.json is not there$"),
    ("ssh", "train.json", "{", "{,", r"^train\.json:1:2: this is no JSON"),
    ("ssh", "node.sh", None, None, "."),
    ("ssh", "hosts.txt", None, "", "."),
    ("ssh", "logs.sh", "exit\n", "exit\nif\n", r"^logs\.sh:\d+: bash: syntax error"),
    ("slurm", "job.sbatch", "--nodes=2", "--nodes=two", "^what slurm reads is not built as it reads it: "),
    ("ssh", ".jobc/plan.txt", None, "x\n", r"^\.jobc/plan\.txt: "),
]  # fmt: skip


@pytest.mark.parametrize(("job", "path", "before", "after", "said"), BROKEN, ids=lambda value: str(value)[:20])
def test_a_file_that_nothing_could_read_is_a_difference(
    job: str, path: str, before: str | None, after: str | None, said: str
) -> None:
    files = dict(files_of(job))
    assert before is None or before in files[path]
    files[path] = (after or "") if before is None else files[path].replace(before, after or "")
    if after is None:
        del files[path]
    found = check(files).differences
    assert any(re.search(said, text) for text in found), found
    assert not re.search(r"\w(Error|Exception)\b|Traceback", " ".join(found))


UNREACHED = [  # edits of lines that no start of the job executes
    ("ssh", "stop.sh", "grace_s=90", "grace_s=91", "stop.sh:\\d+: grace_s is 91, the plan has 90"),
    ("ssh", "stop.sh", 'mark_stopped "$run"', 'mark_stopped "$artifact"', "takes the folder of a run"),
    ("ssh", "stop.sh", "    --now) now=yes ;;\n", "", "--now is one thing in the usage line"),
    ("ssh", "logs.sh", "nodes=2", "nodesx=2", "nodesx is set, and nothing reads it"),
    ("ssh", "status.sh", 'describe_nodes "$run" 2', 'describe_nodes "$run" 3', "number of nodes, which is 2"),
    ("ssh", "status.sh", "set -euo pipefail", "set pipefail", "goes on after an error"),
    ("ssh", "clean.sh", "die 2 'how", "die 3 'how", "no such exit code"),
    ("ssh", "status.sh", "set -euo pipefail", "this_job base runs\nset -euo pipefail", "goes on after an error"),
    ("ssh", "preflight.sh", "  -h | --help) show_help && exit ;;\n", "", "it has no --help"),
    ("ssh", "stop.sh", '"run $(basename -- "$run") does', '"run $(basename -- "$artifact") does', "another folder"),
    ("ssh", "smoke.sh", '"create the folder $runs"', '"create the folder $run"', "try tells of .run,"),
    ("slurm", "job.sbatch", 'mkdir -p -- "$run/exit/', 'mkdir -- "$run/exit/', "below one that may not be there"),
    ("slurm", "task.sh", "sed -n '", "sed '", "sed prints each line"),
    ("skypilot", "task.sky.yaml", "JOBC_ARTIFACT:", "JOBC_ARTIFACTS:", "JOBC_ARTIFACTS is set, and nothing reads it"),
    ("skypilot", "task.sh", "compiled for $nodes", "compiled for $gpus", "nodes is compared"),
    ("kubernetes", "pod.yaml", "name: JOBC_NODE_RANK", "name: JOBC_NODES", "has another JOBC_NODE"),
    ("pods", "status.sh", "this_job base 937", "this_job base runs", "this_job is told base runs"),
    ("pods", "deepspeed.json", '"stage"', '"stages"', "zero_optimization.stage: not there"),
    ("pods", "deepspeed.json", '"gradient_clipping"', '"clipping"', "clipping is no key"),
    ("slurm", "job.sbatch", "#!/", " \n#!/", "^job.sbatch:1: it is a program, and its first line is not #!"),
    ("ssh", NODE, "/usr/bin/env bash\n", "/usr/bin/env bash\r\n", "^node.sh:1: it is a program"),
    ("ssh", NODE, '--node_rank="$JOBC_NODE_RANK"', "--node_rank=0", "node.sh with launcher=torch_distributed_launch"),
    ("ssh", NODE, '    --gpus="$gpus"\n', "", "preflight.py gets --gpus=None"),
    ("ssh", NODE, '    --interface="$interface"\n', "", "preflight.py gets --interface=None"),
    ("slurm", NODE, '    --gpu-type="${JOBC_GPU_TYPE:-}"\n', "", "preflight.py gets --gpu-type=None"),
    ("skypilot", "task.sky.yaml", 'if grep -qsx "plan', 'if grep "plan', "run: grep in a condition prints"),
    ("skypilot", "task.sh", "ends_with=75", "ends_with=76", "ends_with=76: a job never ends with that exit code"),
    ("ssh", "shell.sh", "[[ -n $run ]]", "[[ -n $artifact ]]", "artifact is never empty"),
    ("kubernetes", "engine.sh", "$(pods '' |", "$(pods  |", "pods takes .*, and gets nothing"),
    ("slurm", "queue.sh", "sinfo --noheader ", "sinfo ", "the names of the columns are a line of the answer"),
    ("slurm", "engine.sh", '"${@:3}" 2>&1', '"${@:4}" 2>&1', "3 is lost between .2 and the words from .4"),
    ("sky_shared", "task.sh", "-name 'node_*'", "'node_*'", "find takes a pattern behind -name"),
    ("ssh", "shell.sh", "wc -l", "wc", "wc prints three numbers"),
    ("ssh", "clean.sh", "-t 0 && -t 1", "-t 1 && -t 1", "a condition is asked twice"),
    ("skypilot", "engine.sh", "69 | 75)", "70 | 75)", "70 is no exit code of a job"),
    ("skypilot", "engine.sh", "then echo 75;", "then echo 76;", "76 is no exit code of a job"),
    ("kubernetes", "task.sh", "/STOP ]] || exit 0", "/STOP ]] || exit 1", "stopped for good ends with 0"),
    ("ssh", "engine.sh", "tail -n +2", "tail +2", "tail takes a number behind -n"),
    ("ssh", "engine.sh", "-name 'node_*'", "'node_*'", "find takes a pattern behind -name"),
    ("ssh", "engine.sh", "sed -u ", "sed ", "sed holds back the lines"),
    ("ssh", "task.sh", 'node.sh" "$rank"', 'node.sh" "$attempt"', "node.sh gets .attempt for the number of its node"),
    ("ssh", "smoke.sh", "\ncode=0", "\ncode=1", "begins as a failure"),
    ("ssh", NODE, "nodes > 1 && gpus == 1", "nodes > 2 && gpus == 1", "2 nodes are several as well"),
    ("kubernetes", "shell.sh", ' --namespace="$namespace"', "", "kubectl without --namespace"),
    ("kubernetes", "task.sh", "submit.sh --resume", "submit.sh", "without --resume begins a new run"),
    ("skypilot", "task.sh", "//$'\\n'/", "//$\\n/", "is no end of a line"),
    ("skypilot", "task.sh", "cut -d ' '", "cut ' '", "cut takes a separator behind -d"),
    ("skypilot", "task.sh", 'rm -rf -- "$run"', 'rm -rf -- "$artifact"', "artifact is more than"),
    ("ssh", "smoke.sh", "code != 0", "code != 1", "0 and most failures are taken alike"),
    ("kubernetes", "engine.sh", 'die 1 "cannot make', 'die 2 "cannot make', "die 2 says that the command line"),
    ("ssh", NODE, "((JOBC_NODE_RANK > 0))", "((JOBC_NODES > 0))", "is never 0, so this asks nothing|waits for node 0"),
    ("ssh", NODE, "export JOBC_NODES=$nodes", "export JOBC_NODES=$procs", "JOBC_NODES is .procs, and not .nodes"),
    ("ssh", NODE, '2>/dev/null || cd -- "$here"', '2>/dev/null || cd -- "$project"', "a command stands for itself"),
    ("accelerate", NODE, '"$here/accelerate.yaml"; then', '"$project/accelerate.yaml"; then', "looked for elsewhere"),
    ("slurm", "preflight.sh", "2>&1); then", "3>&1); then", "its errors come on 2"),
    ("kubernetes", "engine.sh", "|| return 1", "|| return 2", "a function returns 0, 1 or the code of a job"),
    ("ssh", NODE, "  shift 2\n", "  shift 3\n", "node.sh shell, start 0: it ends with"),
    ("docker", NODE, '      -np "$((nodes * procs))"\n', "", "node.sh with launcher=mpirun, start 0"),
    ("docker", NODE, '"$payload" "${@:3}"', '"$payload" "${@:4}"', "node.sh shell, start 0: it ends with"),
    ("ssh", NODE, "nodes > 1 && gpus == 1 ? 1", "nodes > 1 && gpus == 2 ? 1", "node.sh smoke, start 0: .* not "),
    ("local", NODE, "(python3 -m jobc_trainer.smoke)", "(python3 jobc_trainer.smoke)", "node.sh smoke, start 0"),
    ("ssh", NODE, '    --run-root="${JOBC_RUN_ROOT:-${JOBC_RUN_DIR%/*/*}}"\n', "", "gets --run-root=None"),
    ("local", "preflight.sh", 'node.sh" 0 ', 'node.sh" 1 ', "is told that it is node 1, and the last one is 0"),
    ("kubernetes", "logs.sh", "read_storage '' ", "read_storage ", "takes HOW RUN FILE NODE, and gets 3"),
    ("ssh", "logs.sh", 'choose_run "$run_id"', 'choose_run "$run_id" 1', "choose_run takes .ID, and gets 2 words"),
    ("accelerate", NODE, "      --no_python\n", "", "accelerate launch is called without --no-python"),
    ("accelerate", NODE, '      --rdzv_conf "timeout=$rendezvous_timeout_s"\n', "", "without --rdzv-conf=timeout"),
    ("accelerate", NODE, "MASTER_ADDR=$JOBC_HEAD_ADDR", "MASTER_ADDR=$JOBC_NODE_LIST", "MASTER_ADDR and MASTER_PORT"),
    ("docker", NODE, '      mpirun\n      --host "$hosts"', '      --host "$hosts"\n      mpirun', "and not mpirun"),
    ("ssh", NODE, '    "$python" -B "$rt/preflight.py"\n    --procs="$procs"',
     '    --procs="$procs"\n    "$python" -B "$rt/preflight.py"', "it does not come to preflight.py"),
    ("ssh", NODE, '--nnodes="$nodes"', '--nnodes="$procs"', "--nnodes gets .procs"),
    ("slurm", "shell.sh", "JOBC_RUN_DIR=$run", "JOBC_RUN_DIR=$artifact", "folder of the run is said to be .art"),
    ("slurm", "submit.sh", 'batch" "$run" "$attempt" here', 'batch" "$artifact" "$attempt" here', "job.sbatch gets"),
    ("kubernetes", "logs.sh", "10#$rank /", "10#$attempt /", "the node of a rank is counted from attempt"),
    ("skypilot", "logs.sh", "no log of rank $rank", "no log of rank $attempt", "attempt is the number of no rank"),
    ("kubernetes", "preflight.sh", "mapfile -t ", "mapfile ", "without -t each line keeps its end"),
    ("kubernetes", "engine.sh", "grep -oE '", "grep '", "without -E a . is a sign like others"),
    ("slurm", "in_job.sh", "-Fxv -f <(", "-Fxv <(", "grep takes a file of patterns behind -f"),
    ("kubernetes", "engine.sh", "$(grep -c ", "$(grep ", "grep prints the lines that it finds"),
    ("kubernetes", "engine.sh", "bash -c 'mkdir", "bash 'mkdir", "bash takes a command behind -c"),
    ("skypilot", "shell.sh", "umask 077", "umask 078", "umask takes digits"),
    ("ssh", "engine.sh", "((nodes == 1))", "((nodes == 2))", "2 nodes are several as well"),
    ("ssh", "engine.sh", "/$attempt code=0", "/$attempt code=1", "begins as a failure"),
    ("kubernetes", NODE, 'fail 65 "launcher $launcher is', 'fail 65 launcher "$launcher is', "fail takes"),
    ("skypilot", "task.sh", "! -e $run/code", "! -e $artifact/code", "folder of the run is looked for"),
    ("ssh", "task.sh", "head=$(head -n 1", "head=$(head -n 2", "2 hosts are no address of node 0"),
    ("kubernetes", "engine.sh", '"nodes=$nodes"', '"nodes=$procs"', "the number of nodes is said to be .procs"),
    ("slurm", "preflight.sh", "(seq 0 1)", "(seq 1 1)", "the nodes are counted from 1 to 1, and are 0 to 1"),
    ("slurm", "smoke.sh", "waiting for 2 nodes", "waiting for 3 nodes", "it waits for 2 nodes, and says 3"),
    ("skypilot", "engine.sh", "awk -v right=", "awk right=", "awk takes a variable behind -v"),
    ("kubernetes", "engine.sh", "tr -cd '", "tr '", "tr takes two sets of signs"),
    ("own", "copies.sh", 'rm -rf -- "$folder"', 'rm -- "$folder"', "rm removes no folder"),
    ("kubernetes", "task.sh", 'mkdir -p -- "${path%/*}"', 'mkdir -- "${path%/*}"', "mkdir fails where the folder"),
    ("slurm", "engine.sh", '  local file said\n', '  said=x\n  local file said\n', "is made local after that"),
    ("skypilot", "task.sky.yaml", 'printf "error: %s', "printf error: %s", "printf prints its first word alone"),
    ("ssh", NODE, "(procs > gpus)); then gpus=0", "(procs > gpus)); then gpus=1", "ranks that are more than the GPUs"),
    ("local", NODE, "code=${JOBC_RUN_DIR:-$here}", "code=${JOBC_RUN_DIR:-$project}", "ranks start in .project"),
    ("kubernetes", "engine.sh", 'k get pods --selector="jobc/job=$object$1" ', "k get pods ", "those of every job"),
    ("kubernetes", "engine.sh", '-shell" --ignore-not-found >', '-shell" >', "fails where nothing is left"),
    ("kubernetes", "logs.sh", "k logs --follow --prefix", "k logs --prefix", "ends with what is there"),
    ("kubernetes", "engine.sh", "grep -m 1 -E $'", "grep -m 2 -E $'", "2 lines where one is meant"),
    ("kubernetes", "engine.sh", "print found + 0", "print found + 1", "found is counted from 0"),
    ("skypilot", "engine.sh", "($2 + 0 == wanted", "($2 + 1 == wanted", "compared with the one after it"),
    ("ssh", "engine.sh", "trap 'exit 129' HUP", "trap 'exit 130' HUP", "a shell that was hung up on ends with 129"),
    ("ssh", "clean.sh", "set -euo pipefail\n", "set -euo pipefail\nthis_job base runs\n", "before run.sh is"),
    ("slurm", "preflight.sh", "  --queue-only) only=yes ;;\n", "", "--queue-only is one thing in the usage"),
]  # fmt: skip


@pytest.mark.parametrize(("job", "path", "before", "after", "said"), UNREACHED, ids=lambda value: str(value)[:20])
def test_an_edit_that_no_start_reaches_is_noticed(job: str, path: str, before: str, after: str, said: str) -> None:
    files = files_of(job)
    assert before in files[path], files[path]
    found = check({**files, path: files[path].replace(before, after)}, thorough=path == NODE).differences
    assert any(re.search(said, text) for text in found), found


def test_a_line_end_of_unicode_in_a_value_is_none_in_the_plan() -> None:
    made = compile_job(Request(("name=x", "secrets.T=env:TT"), ("train.py", "a\x85b\u2028c")))
    assert check({artifact.path: artifact.text for artifact in made.artifacts}).differences == ()


ODD = (  # arguments that a shell, torchrun's Template or a reader of the quoted words might change
    "", " ", "a b", "a\tb", "\n", "c\nd", "e\r\nf", "\x01", "\x7f", "\x85", "\u2028", "é ü", "日本", "🙂", "'", '"',
    "it's \"so\"", "$'x'", "$'", "$'c\\nd'", "\\", "\\n", "a\\'b", "a\\", "-", "--", "---", "-n", "--x=1", "=", ":",
    "$", "$$", "$HOME", "${x}", "$$x", "`id`", "$(id)", "*", "?", "[a]", "~", "!", "#c", "%s", "{}", "{a,b}", ";",
    "&&", "|", "<", ">&2", "' && exec x -- '", " exec ", "set -e\npython train.py\n",
)  # fmt: skip
ON_TWO = ("backend=ssh", "nodes=2", "gpus=0", "hosts=node[1-2]")
LAUNCHED = {
    "torchrun": ON_TWO,  # thorough: with torch.distributed.launch, spawn and mpirun as well
    "c10d": (*ON_TWO, "rendezvous.backend=c10d"),
    "accelerate": (*ON_TWO, "launcher=accelerate"),
    "accelerate_alone": ("backend=local", "gpus=0", "launcher=accelerate"),
    "mpirun": (*ON_TWO, "launcher=mpirun"),
    "srun": ("backend=slurm", "nodes=2", "gpus=0", "procs=2", "launcher=srun"),
    "docker": (*ON_TWO, "container=docker", "image=x:1"),
}


@pytest.mark.parametrize("way", LAUNCHED)
def test_odd_arguments_are_read_back_as_they_are(way: str) -> None:
    made = compile_job(Request(("name=odd", *LAUNCHED[way]), ("train.py", *ODD)))
    found = check({artifact.path: artifact.text for artifact in made.artifacts}, thorough=True)
    assert found.differences == ()
    assert {rank.argv[1:] for rank in found.ranks} == {("train.py", *ODD)}


@pytest.mark.parametrize("launcher", ["torchrun", "spawn", "accelerate"])
def test_a_number_of_ranks_that_no_machine_starts_is_read_back(launcher: str) -> None:
    made = compile_job(Request(("name=huge", "backend=local", f"launcher={launcher}", "procs=863723192263"), COMMAND))
    assert check({artifact.path: artifact.text for artifact in made.artifacts}).differences == ()


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun"])
def test_variables_that_change_bash_itself_are_read_back(launcher: str) -> None:
    env = (
        "env.POSIXLY_CORRECT=1",
        "env.BASH_ENV=/no/such",
        "env.PATH=/usr/bin:/bin",
        "env.CDPATH=/usr",
        "env=venv",
        "env.PS4=> ",
        "env.OPTIND=5",
    )
    made = compile_job(Request(("name=odd", *ON_TWO, f"launcher={launcher}", *env), COMMAND))
    assert check({artifact.path: artifact.text for artifact in made.artifacts}, thorough=True).differences == ()


@pytest.mark.parametrize("offline", ["true", "false"])
def test_what_prefetch_sets_is_read(offline: str) -> None:
    words = ("name=x", "caches=shared", "caches.prefetch=[model:gpt2]", f"caches.offline={offline}")
    files = {artifact.path: artifact.text for artifact in compile_job(Request(words)).artifacts}
    assert check(files).differences == ()
    assert ("JOBC_ONLINE" in files["prefetch.sh"]) == ("JOBC_ONLINE" in files["node.sh"]) == (offline == "true")


def test_a_comment_or_another_order_of_keys_is_no_difference() -> None:
    files = files_of("slurm")
    edited = files["job.sbatch"].replace("#SBATCH --open-mode=append\n", "# mine\n#SBATCH --open-mode=append\n\n")
    lines = files["node.sh"].replace("nodes=2\nprocs=2\n", "procs=2 # of a node\nnodes=2\n")
    assert edited != files["job.sbatch"] and lines != files["node.sh"]
    assert check({**files, "job.sbatch": edited, "node.sh": lines}).differences == ()


@pytest.fixture(scope="module")
def one_job_everywhere() -> dict[str, Checked]:
    found = {}
    for backend in ("local", "ssh", "pdsh", "accelerate", "slurm", "kubernetes", "skypilot"):
        words = ["name=one", "nodes=2", "gpus=1", f"backend={backend}", "env.A=1", "gpu_type=H100", "code=none"]
        if backend in ("ssh", "pdsh", "accelerate", "slurm"):
            words.append("hosts=node[1-2]")
        if backend == "kubernetes":
            words += ["image=x:1", "mounts=[{kind: claim, source: s, target: /runs, read_only: false}]"]
            words += ["storage.root=/runs/all"]
        if backend == "skypilot":
            words.append("storage.run=node")
        made = compile_job(Request(tuple(words), COMMAND))
        found[backend] = check({artifact.path: artifact.text for artifact in made.artifacts})
    return found


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_ranks_get_the_same_from_every_backend(one_job_everywhere: dict[str, Checked], backend: str) -> None:
    first, other = one_job_everywhere["local"], one_job_everywhere[backend]
    assert first.differences == other.differences == ()
    assert {rank.rank: rank.argv[1:] for rank in other.ranks} == {0: COMMAND, 1: COMMAND}
    assert beside(first, other) == []


MEET = {  # the name of node 0, as a pattern; the address is that which SkyPilot has for it
    "ssh": "node1", "pdsh": "node1", "accelerate": "node1", "slurm": "node0",
    "kubernetes": r"(one-\w+)-0\.\1", "skypilot": r"10\.0\.0\.1",
}  # fmt: skip


@pytest.mark.parametrize("backend", MEET)
def test_all_nodes_meet_where_the_engine_has_node_0(one_job_everywhere: dict[str, Checked], backend: str) -> None:
    """What a node takes for its own address, one or several or loopback, is in none of them."""
    first, second = one_job_everywhere[backend].ranks
    assert first.rendezvous == second.rendezvous and re.fullmatch(MEET[backend], first.rendezvous.address)
    assert first.env["JOBC_HEAD_ADDR"] == second.env["JOBC_HEAD_ADDR"] == first.rendezvous.address


def test_the_command_names_the_file_the_fact_and_the_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    main(["-m", "name=x", "nodes=2", "hosts=node[1-2]", "backend=ssh,slurm"])
    capsys.readouterr()
    places = ["artifacts/x/ssh", "artifacts/x/slurm"]
    assert main(["verify", "--equivalence", *places]) == 0
    printed = capsys.readouterr().out
    assert "artifacts/x/slurm: 2 ranks read back" in printed and "each engine numbers its jobs" in printed
    script = tmp_path / places[0] / "node.sh"
    script.write_text(script.read_text().replace("grace_s=60", "grace_s=5"))
    assert main(["verify", "--equivalence", *places]) == 1
    said = capsys.readouterr().err
    assert "error[JC5033]: artifacts/x/ssh: lifecycle.grace_s: node.sh (start 0) has 5, the plan 60" in said
    assert "error[JC5034]: ranks 0-1: JOBC_GRACE_S is '5' on ssh, '60' on slurm" in said
    assert main(["verify", "--equivalence", "--format", "json", *places]) == 1
    told = capsys.readouterr()
    assert told.err == ""
    document = json.loads(told.out)
    edited, other = document["directories"]
    assert "lifecycle.grace_s: node.sh (start 0) has 5, the plan 60" in edited["differences"]
    assert (edited["backend"], edited["ranks"], other["differences"]) == ("ssh", 2, [])
    assert "topology.nodes" in other["compared"] and document["waived_between"]
    (between,) = document["between"]
    assert between["directory"] == places[1]
    assert "ranks 0-1: JOBC_GRACE_S is '5' on ssh, '60' on slurm" in between["differences"]
    script.write_text(script.read_text(), newline="\r\n")
    assert main(["verify", "--equivalence", places[0]]) == 1
    assert re.search(r"JC5033\]: artifacts/x/ssh: node.sh:\d+: bash: syntax error", capsys.readouterr().err)
    assert main(["verify", "--equivalence", places[0], "--quick"]) == 1
    assert "jobc verify --equivalence has no option --quick" in capsys.readouterr().err


def test_a_plan_that_somebody_removed_is_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["name=f"]) == 0
    Path("artifacts/f/local/.jobc/plan.txt").unlink()
    assert main(["verify", "--equivalence", "artifacts/f/local"]) == 1
    said = capsys.readouterr().err
    assert "[JC5009]" in said and ".jobc/plan.txt is missing, which jobc wrote" in said and "sweep" not in said


def test_one_directory_that_cannot_be_read_hides_none_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["-m", "name=x", "nodes=2", "hosts=node[1-2]", "backend=ssh,slurm"])
    capsys.readouterr()
    places = ["nowhere", "artifacts/x/ssh", "artifacts/x/slurm"]
    assert main(["verify", "--equivalence", *places]) == 1
    told = capsys.readouterr()
    assert "[JC5004]" in told.err and "nowhere" in told.err and "JC5034" not in told.err
    assert "artifacts/x/slurm: 2 ranks read back" in told.out and "between them" in told.out
    assert main(["verify", "--equivalence", "--format", "json", *places]) == 1
    document = json.loads(capsys.readouterr().out)
    refused, *read = document["directories"]
    assert refused["directory"] == "nowhere" and [one["code"] for one in refused["refused"]] == ["JC5004"]
    assert [one["directory"] for one in read] == places[1:]
    assert document["between"] == [{"directory": places[2], "differences": []}]
    assert main(["verify", "--equivalence", "nowhere"]) == 1
    assert capsys.readouterr().out == ""
