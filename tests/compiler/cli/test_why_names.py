"""`jobc why` for a key or a variable: the whole chain down to the lines, and from a key to everything that depends on
it.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from jobc.compiler.cli import main

JOB = ("name=x", "nodes=2", "gpus=4", "hosts=a,b,c", "backend=ssh", "model.width=${model.context}", "env.MINE=1")
FOLDER = "artifacts/x/ssh"
PODS = (
    "backend=kubernetes", "image=x:1", "storage.root=/s/runs", "code=none",
    "mounts=[{kind: claim, source: shared, target: /s, read_only: false}]",
)  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "jobc/experiment").mkdir(parents=True)
    (folder / "jobc/experiment/long.yaml").write_text("# @package _global_\nloop:\n  steps: 900\n")
    return folder


@pytest.fixture
def ask(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    monkeypatch.chdir(project)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / "none"))
    if not (project / FOLDER).exists():
        assert main([*JOB, "+experiment=long"]) == 0
        capsys.readouterr()
    return Ask(capsys)


class Ask:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *words: str, status: int = 0) -> str:
        assert main(["why", *words]) == status
        captured = self.capsys.readouterr()
        return captured.err if status else captured.out


def test_a_key_leads_from_the_override_that_chose_its_file_to_the_lines(ask: Ask) -> None:
    said = ask(FOLDER, "loop.steps")
    assert "spec     loop.steps = 900\n           project:experiment/long.yaml:3:10\n" in said
    assert "read for experiment=long, chosen command line: +experiment=long\n" in said
    assert "plan     train.loop.steps = 900\n" in said
    assert '  "steps": 900' in said and f"{FOLDER}/spec.yaml:" in said


def test_an_interpolation_leads_on_to_the_key_that_it_names(ask: Ask) -> None:
    said = ask(FOLDER, "model.width")
    chain = "written as ${model.context}\n  spec     model.context = 64\n           jobc:conf/model/gpt_tiny.yaml:"
    assert chain in said


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("topology.procs", "= 4", "one per GPU"),
        ("train.batch.global", "= 128", "ranks that have their own samples"),
        ("resources.hosts", '= "a,b"', "The first hosts in `hosts`"),
    ],
)
def test_a_plan_key_says_by_which_rule_it_was_made(ask: Ask, key: str, value: str, rule: str) -> None:
    said = ask(FOLDER, key)
    assert f"plan     {key} {value}\n" in said and rule in said
    assert "spec     nodes = 2\n" in said or key == "topology.procs"


def test_a_key_shows_every_line_that_depends_on_it_and_every_file_that_is_there_for_it(ask: Ask) -> None:
    said = ask(FOLDER, "nodes")
    lines = [f"{FOLDER}/hosts.txt:1  a\n", '  "world_size": 8,\n', "  --nnodes=2\n"]
    assert all(line in said for line in lines), said
    assert "  hosts.txt\n" in ask("nodes=2", "nodes")  # of backend=local, which has none for one node


@pytest.mark.parametrize(
    ("name", "line"), [("topology.world_size", '  "world_size": 8,'), ("backend.name", "  name: ssh")]
)
def test_a_key_that_only_the_plan_has_leads_to_the_lines_of_those_it_is_made_of(ask: Ask, name: str, line: str) -> None:
    assert f"{line}\n" in ask(FOLDER, name)


def test_the_number_of_ranks_is_told_with_its_rule(ask: Ask) -> None:
    assert ask(FOLDER, "topology.world_size").splitlines()[2].strip() == "Nodes times processes per node."


def test_the_lines_of_an_edited_file_are_those_that_it_has_now(ask: Ask, tmp_path: Path) -> None:
    copy = shutil.copytree(FOLDER, tmp_path / "copy")
    script, config = copy / "launch.sh", copy / "train.json"
    lines = script.read_text().replace("timeout=300\n", "timeout=90\n").split("\n")
    lines[9:9] = ["# mine", "# and mine"]
    script.write_text("\n".join(lines))
    config.write_text(json.dumps(json.loads(config.read_text())))
    for key, line in (("nodes", "--nnodes=2"), ("rendezvous.timeout", "--rdzv-conf=timeout=90")):
        edited = "  (edited after the compile)" if key == "rendezvous.timeout" else ""
        assert f"  {script}:{lines.index(f'  {line}') + 1}  {line}{edited}\n" in ask(str(copy), key)
    assert f"  {config}  edited: a line that depended on it was removed\n" in ask(str(copy), "loop.steps")
    (copy / "spec.yaml").unlink()
    assert f"  {copy}/spec.yaml  edited: a line that depended on it was removed\n" in ask(str(copy), "loop.steps")


def test_lines_are_asked_about_by_their_first_and_last(ask: Ask) -> None:
    script = f"{FOLDER}/launch.sh"
    assert ask(f"{script}:8-10") == "".join(ask(f"{script}:{number}") for number in (8, 9, 10))
    assert ask(f"{script}:8-8", f"{script}:9") == ask(f"{script}:8", f"{script}:9")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("OMP_NUM_THREADS", ("set      artifacts/x/ssh/launch.sh:", "spec     threads = null")),
        ("NCCL_SOCKET_IFNAME", ("on node  jobc:runtime/network/network.py:",)),
        ("MINE", ("set      artifacts/x/ssh/launch.sh:", "command line: env.MINE=1")),
        ("LOCAL_RANK", ("rank     5 of 8 is process 1 of 4 on node 1: LOCAL_RANK=1", "set by launcher")),
    ],
)  # fmt: skip
def test_a_variable_of_a_rank_leads_to_the_line_that_sets_it(ask: Ask, name: str, found: tuple[str, ...]) -> None:
    said = ask(FOLDER, name, "--rank", "5")
    assert all(words in said for words in found), said


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("secrets.TOK=env:TOK",), ("how      jobctl reads the environment variable TOK on", '  "TOK": {\n')),
        (("secrets.TOK=file:/x",), ("how      jobctl reads the file /x on each node\n", '  "TOK": {\n')),
        (("secrets.TOK=env:MINE", "backend=slurm"), ("through  .jobc/job.json:", '  "TOK": {\n', '  "MINE"\n')),
        (("secrets.TOK=env:TOK", "backend=ssh", "hosts=a"), ('  "TOK": {\n', '  "TOK"\n')),
    ],
)
def test_a_secret_leads_to_the_lines_that_fetch_it(ask: Ask, words: tuple[str, ...], found: tuple[str, ...]) -> None:
    said = ask(*words, "TOK")
    assert all(line in said for line in found), said
    assert f"spec     secrets.TOK = {words[0].partition('=')[2]}\n" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nodes=2", "gpus=2"), "jobctl sets this variable to the node's share of the GPUs that jobctl submit may use"),
        (("nodes=1", "gpus=2"), "not set by jobc: the ranks inherit"),
        (("nodes=2", "gpus=0"), "this job neither sets the variable nor requests GPUs from an engine"),
        (("backend=ssh", "hosts=a,b", "gpus=2"), "not set by jobc: the ranks inherit"),
        (("backend=pdsh", "hosts=a,b", "gpus=2"), "not set by jobc: the ranks inherit"),
        (("backend=slurm", "gpus=2"), "the engine allocates `gpus` GPUs on each node"),
        (("backend=slurm", "gpus=0"), "this job neither sets the variable nor requests GPUs from an engine"),
        (("backend=skypilot", "gpus=2", "gpu_type=H100"), "the engine allocates `gpus` GPUs on each node"),
        ((*PODS, "gpus=2"), "the engine allocates `gpus` GPUs on each node"),
    ],
)
def test_who_chooses_the_gpus_is_told_as_it_is(ask: Ask, words: tuple[str, ...], said: str) -> None:
    answer = ask(*words, "CUDA_VISIBLE_DEVICES")
    assert f"CUDA_VISIBLE_DEVICES\n  how      {said}" in answer
    assert ("  set  " in answer) == (" sets it\n" in answer)


def test_without_a_directory_the_overrides_are_asked(ask: Ask, project: Path) -> None:
    said = ask("nodes=3", "name=y", "topology.nodes")
    assert "plan     topology.nodes = 3\n" in said and "command line: nodes=3\n" in said
    assert not (project / "artifacts/y").exists()


def test_a_directory_of_a_sweep_is_no_override(ask: Ask) -> None:
    assert main(["-m", "name=f", "backend=slurm", "nodes=1,2", "seed=1,2"]) == 0
    ask.capsys.readouterr()
    for folder in ("artifacts/f+nodes=1+sweep/slurm", "./artifacts/f+nodes=1+sweep/slurm"):
        assert "spec     seed = 1\n" in ask(folder, "seed")  # of the first point
        assert ask(f"{folder}/launch.sh:1").startswith(f"{folder}/launch.sh:1\n  | #!")
    assert "plan     env.A" in ask("env.A=x:3", "A")
    assert ask("artifacts/f+nodes=9/slurm", "seed", status=1).startswith("error[JC5004 ")


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        ((FOLDER, "lop.steps"), "JC5030", "did you mean loop.steps?"),
        ((FOLDER, "WORLD_SIZ"), "JC5030", "did you mean WORLD_SIZE?"),
        ((FOLDER, "RANK", "--rank", "8"), "JC5031", "--rank 7"),
        ((FOLDER, "RANK", "--rank", "x"), "JC1110", "--rank 3"),
        ((FOLDER, "nodes=2", "nodes"), "JC1110", f"jobc why {FOLDER} loop.steps"),
        ((FOLDER, "nodes", "--rank", "99"), "JC1110", "remove --rank"),
        (("-m", "nodes=1,2", "name=y", "nodes"), "JC1110", "jobc why nodes=1 name=y nodes"),
        (("--plain", "nodes"), "JC1110", "remove --plain"),
        ((f"{FOLDER}/launch.sh:10-8",), "JC1110", f"jobc why {FOLDER}/launch.sh:8-10"),
        ((f"{FOLDER}/hosts.txt:1-99",), "JC5006", f"{FOLDER}/hosts.txt:"),
        ((FOLDER,), "JC1110", f"jobc why {FOLDER}/launch.sh:1"),
    ],
)
def test_a_question_without_an_answer_is_a_diagnostic(ask: Ask, words: tuple[str, ...], code: str, hint: str) -> None:
    said = ask(*words, status=1)
    assert f"[{code} " in said and hint in said


def test_a_name_without_an_answer_takes_none_from_the_others(ask: Ask) -> None:
    assert main(["why", FOLDER, "NOSUCH", "loop.steps", "lop.steps"]) == 1
    printed, said = ask.capsys.readouterr()
    assert printed == ask(FOLDER, "loop.steps")
    assert said.count("error[JC5030 ") == 2 and "unknown name NOSUCH" in said and "lop.steps" in said


WORDS = ("name=y", "nodes=2", "procs=3", "rendezvous.port=29511", "threads=5", "storage.root=mine")
HOSTS = ("backend=ssh", "hosts=a,b")
LAUNCHED = {
    "torchrun": HOSTS,
    "torch_distributed_launch": HOSTS,
    "c10d": (*HOSTS, "rendezvous.backend=c10d"),
    "accelerate": HOSTS,
    "spawn": HOSTS,
    "mpirun": HOSTS,
    "srun": ("backend=slurm",),
}
OF_ALL = {  # what leads from the words to the variable, whatever the launcher
    "WORLD_SIZE": ("command line: nodes=2", "command line: procs=3"),
    "LOCAL_WORLD_SIZE": ("command line: procs=3",),
    "RANK": ("command line: procs=3",),
    "LOCAL_RANK": ("command line: procs=3",),
    "GROUP_RANK": ("JOBC_NODE_RANK",),
    "MASTER_ADDR": ("JOBC_HEAD_ADDR",),
    "MASTER_PORT": ("command line: rendezvous.port=29511",),
    "OMP_NUM_THREADS": ("command line: threads=5",),
    "JOBC_RUN_DIR": ("command line: storage.root=mine", "command line: name=y", '"JOBC_RUN_DIR": run'),
}
STARTS = {"spawn": "  spawn # ", "srun": "  srun # ", "mpirun": "  mpirun # "}
TORCHRUN = {
    "WORLD_SIZE": "--nnodes=", "LOCAL_WORLD_SIZE": "--nproc-per-node=", "RANK": "--nproc-per-node=",
    "LOCAL_RANK": "--nproc-per-node=", "GROUP_RANK": "--node-rank=", "MASTER_ADDR": "--master-addr=",
    "MASTER_PORT": "--master-port=",
}  # fmt: skip
ACCELERATE = {
    "WORLD_SIZE": "num_processes: 6", "LOCAL_WORLD_SIZE": "num_machines: 2", "RANK": "num_processes: 6",
    "LOCAL_RANK": "num_processes: 6", "GROUP_RANK": "--machine_rank", "MASTER_ADDR": "--main_process_ip",
    "MASTER_PORT": "--main_process_port", "OMP_NUM_THREADS": "--num_cpu_threads_per_process",
}  # fmt: skip
C10D = {**TORCHRUN, "GROUP_RANK": "rank.py:", "MASTER_ADDR": "--rdzv-endpoint", "MASTER_PORT": "--rdzv-endpoint"}
FLAGS = {
    "torchrun": TORCHRUN,
    "torch_distributed_launch": {k: "--" + v[2:].replace("-", "_") for k, v in TORCHRUN.items()},
    "c10d": C10D,
    "accelerate": ACCELERATE,
}


@pytest.mark.parametrize("way", LAUNCHED)
def test_the_whole_chain_of_what_the_own_launcher_sets(ask: Ask, way: str) -> None:
    launcher = "torchrun" if way == "c10d" else way
    said = ask(*WORDS, f"launcher={launcher}", *LAUNCHED[way], *OF_ALL)
    chains = dict(zip(OF_ALL, re.split(rf"^(?:{'|'.join(OF_ALL)})\n", said, flags=re.MULTILINE)[1:], strict=True))
    for name, chain in chains.items():
        of_launcher = name not in ("OMP_NUM_THREADS", "JOBC_RUN_DIR")
        needed = [*OF_ALL[name], *([STARTS[way]] if way in STARTS and of_launcher else [])]
        needed += [FLAGS[way][name]] if name in FLAGS.get(way, {}) else []
        assert [words for words in needed if words not in chain] == [], f"{name}:\n{chain}"
        assert ("  how      " in chain) == (of_launcher or name in FLAGS.get(way, {})), f"{name}:\n{chain}"
        others = ["no run folder", *(["--nproc", "--master"] if way in STARTS else [])]
        others += ["--machine_rank"] * (way != "accelerate") + ["/spawn.py:"] * (way not in STARTS)
        others += [start for own, start in STARTS.items() if own != way]
        lines = "\n".join(re.findall(r"^  (?:set|passed|through|on node) .*$", chain, re.MULTILINE))
        assert [words for words in others if words in lines] == [], f"{name}:\n{chain}"


def test_accelerate_sets_nothing_for_one_process(ask: Ask) -> None:
    said = ask("name=y", "launcher=accelerate", "WORLD_SIZE")
    assert "on node  jobc:runtime/ranks/launchers.py:" in said and "num_processes" not in said


def test_where_the_nodes_make_the_run_folder_submit_sh_has_no_part_in_it(ask: Ask) -> None:
    volume = "mounts=[{kind: claim, source: s, target: /s, read_only: false}]"
    said = ask("name=y", "backend=kubernetes", "image=x:1", "storage.root=/s/r", volume, "JOBC_RUN_DIR")
    assert "command line: storage.root=/s/r" in said and "command line: name=y" in said and "this_job" not in said


def test_a_message_and_downloads_set_nothing(ask: Ask) -> None:
    said = ask("name=y", "caches=shared", "caches.prefetch=[model:gpt2]", "JOBC_RUN_DIR")
    assert "no run folder" not in said
    assert re.search(r'jobc:runtime/engines/starting_engine.py:\d+  "JOBC_RUN_DIR": str', said, re.MULTILINE)


def test_an_edited_line_has_the_chain_of_the_line_it_stands_for(ask: Ask, project: Path) -> None:
    file = project / FOLDER / "launch.sh"
    before = file.read_text()
    number = before.split("\n").index("  --nnodes=2") + 1
    file.write_text("# mine\n" + before.replace("\n  --nnodes=2\n", "\n  --nnodes=3\n"))
    try:
        said = ask(f"{FOLDER}/launch.sh:{number + 1}")
        assert "  edited   " in said and f"  replaces line {number} of jobc's file: " in said
        assert "spec     nodes = 2\n           command line: nodes=2\n" in said
        assert "  from  " not in ask(f"{FOLDER}/launch.sh:1"), "jobc wrote no such line"
        assert "edited" not in ask(FOLDER, "MINE"), "a line that moved is as jobc wrote it"
    finally:
        file.write_text(before)


def test_an_entry_of_yaml_leads_to_what_stands_below_it(ask: Ask) -> None:
    claim = "mounts=[{kind: claim, source: c, target: /s, read_only: false}]"
    pods = ("backend=kubernetes", "image=x:1", "storage.root=/s/r", "code=image", "code.root=/app", claim)
    said = ask(*pods, "secrets.TOK=k8s:a/b", "TOK")
    assert re.search(r"through  job.yaml:\d+  key: b\n.*\n  plan     secrets.TOK.ref = \"a/b\"\n", said)
    assert "  spec     secrets.TOK = k8s:a/b\n" in said and "valueFrom:" not in said


def test_what_accelerate_makes_of_its_file_leads_to_the_key(ask: Ask) -> None:
    hosts = ("backend=accelerate", "hosts=[a,b]", "nodes=2", "loop.precision=bf16")
    said = ask(*hosts, "ACCELERATE_MIXED_PRECISION")
    assert re.search(r"passed   accelerate.yaml:\d+  mixed_precision: bf16\n", said.replace('"', "")), said
    assert "  spec     loop.precision = bf16\n" in said


def test_the_interface_of_nccl_leads_to_the_key(ask: Ask) -> None:
    said = ask("backend=ssh", "hosts=[a,b]", "nodes=2", "network.interface=eth0", "NCCL_SOCKET_IFNAME")
    assert "  spec     network.interface = eth0\n" in said


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            '    "nodes": 2,',
            "plan     topology.nodes\n  spec     nodes = 2\n           command line: nodes=2\n",
        ),
        ('    "seed = 0",', "from     the whole job\n"),
        ('  "inputs": {', "from     the whole job\n"),
    ],
    ids=["a setting", "a record", "the seal"],
)
def test_a_line_of_the_job_file_leads_to_its_key(ask: Ask, project: Path, line: str, found: str) -> None:
    lines = (project / FOLDER / ".jobc/job.json").read_text().split("\n")
    assert found in ask(f"{FOLDER}/.jobc/job.json:{lines.index(line) + 1}")


def test_every_line_of_the_job_file_has_an_answer(ask: Ask, project: Path) -> None:
    count = (project / FOLDER / ".jobc/job.json").read_text().count("\n")
    answers = ask(f"{FOLDER}/.jobc/job.json:1-{count}").split(f"{FOLDER}/.jobc/job.json:")[1:]
    ends = ("  from     the whole job", "  constant does not depend on any key", "  plan     ")
    assert len(answers) == count and all(any(end in answer for end in ends) for answer in answers)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("WORLD_SIZE", r'"nodes": 2,\n  plan     topology.nodes = 2'),
        ("LOCAL_RANK", r'"procs": 3,\n  plan     topology.procs = 3'),
        ("MASTER_PORT", r'"port": 29511,\n  plan     rendezvous.port = 29511'),
    ],
)
def test_what_jobctl_reads_from_the_job_file_leads_to_its_line(ask: Ask, name: str, line: str) -> None:
    said = ask(*WORDS, *HOSTS, "launcher=spawn", name)
    assert re.search(rf"  through  \.jobc/job\.json:\d+  {line}\n", said), said


def test_a_value_of_the_job_file_that_becomes_a_variable_is_the_line_that_sets_it(ask: Ask) -> None:
    said = ask("backend=skypilot", "storage.root=s3://my-bucket/x", "storage.run=object", "name=y", "JOBC_STORE")
    assert re.search(r'  set      \.jobc/job\.json:\d+  "JOBC_STORE": "s3://my-bucket/x",\n', said)
    assert "command line: storage.root=s3://my-bucket/x\n" in said
