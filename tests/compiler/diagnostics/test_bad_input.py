"""Every kind of wrong command line causes one clear message with code, reason and remedy, and no traceback."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ..diagnosed import Jobc, assert_complete, codes, write

EACH_EPOCH = ("checkpoint.every_epochs=1", "checkpoint.every_steps=null")
COMMIT = ("backend=skypilot", "storage.run=node", "code.repository=https://x.org/r.git", f"code.commit={'0' * 40}")
LINES = [  # words, code, what the message says besides
    (["ndoes=2"], "JC1102", "did you mean nodes=2?"),
    (["lop.steps=3"], "JC1102", "did you mean loop.steps=3?"),
    (["step=4"], "JC1102", "did you mean loop.steps=4?"),
    (["process_group.init_timeout_s=30m"], "JC1202", "hint: process_group.init_timeout_s=1800"),
    (["estimate.step_s=100ms"], "JC1202", "hint: estimate.step_s=0.1\n"),
    (["estimate.step_s=0.25s"], "JC1202", "hint: estimate.step_s=0.25\n"),
    (["estimate.step_s=1.5m"], "JC1202", "hint: estimate.step_s=90\n"),
    (["estimate.step_s=2m"], "JC1202", "hint: estimate.step_s=120\n"),
    (["estimate.step_s=0s"], "JC1202", "hint: estimate.step_s=0.001 or"),
    (["process_group.step_timeout_s=100ms"], "JC1202", "hint: process_group.step_timeout_s=2\n"),
    (["estimate.price.H100=2"], "JC1102", "did you mean estimate.prices.H100=2?"),
    (["estimate.price={H100: 2}"], "JC1102", "did you mean estimate.prices={H100: 2}?"),
    (["secret.HF=env:X"], "JC1102", "did you mean secrets.HF=env:X?"),
    (["secret=env:X"], "JC1102", "did you mean secrets.X=env:X?"),
    (["secretss.TOKEN=env:X"], "JC1102", "did you mean secrets.TOKEN=env:X?"),
    (["secretss.TOKEN=hunter2"], "JC1102", "did you mean secrets.TOKEN=env:HF_TOKEN?"),
    (["lables.team=x"], "JC1102", "did you mean labels.team=x?"),
    (["lables=null"], "JC1102", "did you mean labels={}?"),
    (["~evn.A"], "JC1102", "did you mean ~env.A?"),
    (["network.setting.NCCL_X=1"], "JC1102", "'network.settings=[{name: NCCL_X, value: 1, reason: TEXT}]'?"),
    (["network.settings={A: 1}"], "JC1105", "hint: 'network.settings=[{name: TEXT, value: TEXT, reason: TEXT}]'\n"),
    (["lable.team=x"], "JC1102", "did you mean labels.team=x?"),
    (["accelerate.extr.rdzv.x=1"], "JC1102", "did you mean accelerate.extra.rdzv.x=1?"),
    (["envs.A=1"], "JC1102", "did you mean env.A=1?"),
    (["debug=true"], "JC1102", "network.debug=true for NCCL's log"),
    (["backend.detch=true"], "JC1102", "did you mean backend.detach=true?"),
    (["backend=slrm", "backend.partition=x"], "JC1109", "hint: backend=slurm"),
    (["+task=nope"], "JC1109", "hint: +task=digits, +task=gpt2_124m or"),
    (["+task=digits", "+task=gpt_tiny"], "JC1105", "+task=[digits,gpt_tiny]"),
    (["foo/bar=3"], "JC1102", "foo/bar"),
    (["optim.lrr=3"], "JC1102", "did you mean optim.lr=3?"),
    (["modle=mlp"], "JC1102", "did you mean model=mlp?"),
    (["backend=skypilot", "backend.num_nodes=8"], "JC1102", "did you mean nodes=8?"),
    (["backend=kubernetes", "backend.priorityClassName=high"], "JC1102", "did you mean queue.priority=high?"),
    (["backend=skypilot", "backend.envs.A=1"], "JC1102", "did you mean env.A=1?"),
    (["backend=skypilot", "backend.accelerators=H100:8"], "JC1102", "gpu_type=H100 gpus=8, for H100:8"),
    (
        ["backend=kubernetes", "backend.node_selector={pool: a3}"],
        "JC1105",
        'backend.node_selector=["pool=gpu"]\', with one text per item',
    ),
    (
        ["backend=kubernetes", "image=x", "backend.tolerations=[{key: a}]"],
        "JC1202",
        "backend.tolerations=[nvidia.com/gpu:NoSchedule], with one text per item",
    ),
    (["backend.bogus=1"], "JC1102", "known key: backend.detach"),
    (["profile.active=2"], "JC1102", "profile.steps=[5,6], the first and the last step"),
    (["backend=slurm", "backend.extra.mial=a@b"], "JC4340", "mean backend.extra.mail-type or backend.extra.mail-user?"),
    (["backend=slurm", "backend.extra.tiem=4"], "JC4340", "--time is similar"),
    (["backend=slurm", "backend.extra.ondes=4"], "JC4340", "--nodes is similar"),
    (["backend=kubernetes", "backend.bogus=1"], "JC1102", "jobc --help lists the keys"),
    (["nodes.x=3"], "JC1102", "nodes.x"),
    (["model={depth: 3}"], "JC1102", "model.depth"),
    (["~nodez"], "JC1102", "did you mean nodes?"),
    (["model@other=mlp"], "JC1102", "did you mean model=mlp?"),
    (["hydra.run.dir=/x"], "JC1102", "--out DIR"),
    (["hydra/launcher=joblib"], "JC1102", "Hydra itself"),
    (["cluster=mine"], "JC1102", "./jobc/cluster"),
    (["+ndoes=2"], "JC1201", "did you mean nodes?"),
    (["+model@other=mlp"], "JC1201", "other"),
    (["model=gpt"], "JC1109", "gpt_small, gpt_tiny, mlp"),
    (["backend=slrm"], "JC1109", "group backend has"),
    (["parallel=deepspeed/zero2"], "JC1109", "hint: parallel=deepspeed\n"),
    (["backend=ssh/openssh"], "JC1109", "--> command line: backend=ssh/openssh   (backend)"),
    (["backend=ssh/openssh"], "JC1109", "hint: backend=ssh\n"),
    (["model=gpt/tiny"], "JC1109", "hint: model=gpt_tiny\n"),
    (["model=[gpt/tiny]"], "JC1109", "hint: model=gpt_tiny\n"),
    (["+task=gpt/tiny"], "JC1109", "hint: +task=gpt_tiny\n"),
    (["model=gpt_tiny,mlp"], "JC1109", "jobc -m model=gpt_tiny,mlp"),
    (["model=null"], "JC1109", "cannot be null"),
    (["task=null"], "JC1109", "~task"),
    (["~backend"], "JC4001", "backend="),
    (["~seed"], "JC1203", "~seed"),
    (["~python"], "JC1203", "--> command line: ~python   (python)"),
    (["~python"], "JC1203", "hint: remove ~python, or give python a value\n"),
    (["+seed=1"], "JC1104", "seed=1"),
    (["++python=venv"], "JC1105", "python=venv"),
    (["~nodes=5"], "JC1105", "nodes"),
    (["=3"], "JC1101", "key=value"),
    (["env.1X=3"], "JC1101", "labels={"),
    (["env.A-B=3"], "JC1202", "env.A_B=VALUE"),
    (["env.X=[a"], "JC1101", "'env.X=\"[a\"'"),
    (["setup=[echo $(id -u),ls]"], "JC1101", """'setup=["echo $(id -u)","ls"]'"""),
    (["env.X=" + "[" * 2000], "JC1101", "a list"),
    (["seed=" + "9" * 5000], "JC1202", "64-bit"),
    (["time=" + "9" * 5000 + "d"], "JC1202", "365d"),
    (["nodes=99999999999999999999"], "JC1202", "64-bit"),
    (["optim.lr=1e999"], "JC1202", "finite"),
    (["mem=0GiB"], "JC1202", "no limit"),
    (['name="[null]"'], "JC1202", "hint: name=job\n"),
    (["code.max_size=0"], "JC1202", "hint: code.max_size=64GiB\n"),
    (["mem=0"], "JC1202", "hint: mem=null or mem=64GiB\n"),
    (["shm=0"], "JC1202", "hint: shm=null or shm=64GiB\n"),
    (["mem=0G"], "JC1202", "hint: mem=null or mem=64GiB\n"),
    (["queue.name="], "JC1202", "queue.name=null"),
    (["queue.after=5"], "JC1202", "queue.after=[5]"),
    (["command=python train.py"], "JC1202", "command=[python,train.py]"),
    (["network.settings.A=x"], "JC1102", "is a list, and its items have no names"),
    (["network.settings.A.b=x"], "JC1102", "is a list, and its items have no names"),
    (["mounts=[{source: /a}]"], "JC1203", "mounts.0.target"),
    (["secrets.TOKEN=hf_abc"], "JC1202", "not a value"),
    (["gpus=4", "procs=8"], "JC2001", "procs=4"),
    (["loop.epochs=3"], "JC2004", "loop.epochs=null"),
    (["checkpoint.every_epochs=3"], "JC2004", "hint: checkpoint.every_steps=null, for 3 epochs"),
    ([*EACH_EPOCH, "checkpoint.keep_every_steps=5"], "JC2020", "hint: checkpoint.keep_every_steps=null\n"),
    (["batch.accumulation=2", "batch.global=64"], "JC2002", "contradicts"),
    (["procs=2", "--"], "JC2012", "command line: -- …"),
    (["--", " "], "JC2012", "command is empty"),
    (['command=[""]'], "JC2012", "command is empty"),
    (["code=git", *COMMIT, "code.root=/abs", "--", "a.py"], "JC4514", "hint: code.root=."),
    (["code=git", *COMMIT, "code.repository='ext::touch%20x'", "--", "a.py"], "JC4514", "is not a valid repository"),
    (["code=git", *COMMIT, "code.root=a/../..", "--", "a.py"], "JC4514", "'a/../..' is not a folder in the repository"),
    (["--", "--lr", "0.1"], "JC2012", "-- train.py --lr 0.1"),
    (["model.heads=3"], "JC2020", "command line: model.heads=3   (model.heads)"),
    (["data=digits"], "JC2020", "(data.kind)"),
    (["run", "name=x", "train.py", "--lr", "0.1"], "JC1110", "hint: jobc run name=x -- train.py --lr 0.1"),
    (["procs=2", "python", "train.py", "--lr=1"], "JC1110", "hint: jobc procs=2 -- python train.py --lr=1"),
    (["--procs", "2"], "JC1110", "hint: procs=2"),
    (["--lr=3"], "JC1110", "hint: -- train.py --lr 3; or optim.lr=3 for the bundled trainer"),
    (["run", "--resume", "ID"], "JC1110", "hint: jobc submit DIR --resume ID"),
    (["--frobnicate"], "JC1110", "unknown option --frobnicate"),
    (["check", "--json"], "JC1110", "hint: --format json\n"),
    (["~env.NAME"], "JC1102", "hint: remove ~env.NAME and the override"),
    (["env.MASTER_PORT=80"], "JC2006", "hint: remove env.MASTER_PORT\n"),
    (["env.MASTER_PORT=²"], "JC2006", "hint: remove env.MASTER_PORT\n"),
    (["env.OMP_NUM_THREADS=²"], "JC2006", "hint: remove env.OMP_NUM_THREADS\n"),
    (["env.OMP_NUM_THREADS=٣"], "JC2006", "hint: remove env.OMP_NUM_THREADS\n"),
    (["env.OMP_NUM_THREADS=04"], "JC2006", "hint: threads=4; remove env.OMP_NUM_THREADS\n"),
    (["time=٣m"], "JC1202", "hint: time=12h"),
    (["mem=٣"], "JC1202", "hint: mem=64GiB\n"),
    (["env.MASTER_PORT=2000"], "JC2006", "hint: rendezvous.port=2000; remove env.MASTER_PORT\n"),
    (["env=venv"], "JC1202", "because: a single value was given\n  = hint: env.NAME=VALUE\n"),
    (["--configdir", "x"], "JC1110", "did you mean --config-dir?"),
    (["--cfg", "jobs"], "JC1110", "job, hydra, all"),
    (["--out"], "JC1110", "--out OUT"),
    (["--cfg", "job", "ndoes=2"], "JC1102", "did you mean nodes=2?"),
    (["--cfg", "job", "-p", "optin"], "JC1102", "unknown section optin"),
    (["--info", "ndoes=2"], "JC1102", "did you mean nodes=2?"),
    (["--config-dir", "nope"], "JC1108", "no such folder"),
    (["--config-name", "confg"], "JC1108", "--config-name config"),
    (["frobnicate"], "JC1110", "goes after --"),
    (["compil"], "JC1110", "did you mean jobc compile?"),
    (["nodes=1,2"], "JC1202", "hint: for a sweep: jobc -m nodes=1,2"),
    (["network.interface=^lo,docker"], "JC1202", "hint: network.interface=null, network.interface=eth0 or"),
    (["backend=ssh", "hosts=@/dev/null"], "JC1130", "it is a device, not a regular file"),
    (["-m", "nodes=glob(*)"], "JC1101", "nodes is not a group"),
    (["-m", "backend=glob(x*)"], "JC1101", "hint: backend=accelerate,kubernetes"),
    (["check", "-m", "seed=range(0)"], "JC1101", "hint: seed=0"),
    (["-m", "seed=range(5,1)"], "JC1101", "hint: seed=range(5,1,-1)"),
    (["-m", "env.A=range(1,2,0)"], "JC1101", "hint: env.A=range(1,2,1)"),
    (["-m", "optim.lr=range(0,nan)"], "JC1101", "from one number to another"),
    (["-m", "seed=shuffle(range(0,inf))"], "JC1101", "from one number to another"),
    (["check", "-m", "nodes=range(1,100000)"], "JC1113", "hint: nodes=range(1,101,1), and the other values"),
    (["-m", "nodes=range(1,101)", "seed=range(0,100)"], "JC1113", "a sweep of 10,000 points"),
    (["-m", "optim.lr=range(0,1,1e-300)"], "JC1113", "a billion or more"),
    (["check", "run"], "JC1110", "remove run"),
    (["check", "check"], "JC1110", "jobc runs one command at a time"),
    (["command=[a]", "--", "b"], "JC2015", "remove command=[a]"),
    (["--", "train.py", "\udcff\udcfe"], "JC1101", "these bytes are not"),
    (["time=0s"], "JC1202", "hint: time=null or time=12h"),
    (["time=0"], "JC1202", "hint: time=null or time=12h"),
    (["labels=[x]"], "JC1105", "hint: labels.NAME=VALUE for each entry"),
    (["loop.epochs=2"], "JC2004", "hint: loop.steps=null, for 2 epochs"),
    (["point=../x"], "JC1202", "hint: point=x"),
    (["why"], "JC1110", "FILE:LINE"),
    (["why", "launch.sh"], "JC1110", "FILE:LINE"),
    (["why", "."], "JC1110", "FILE:LINE"),
    (["verify", "nope"], "JC5004", "hint: jobc verify artifacts/"),
    (["submit", "nope"], "JC5004", "hint: jobc submit artifacts/"),
    (["backends", "all=1"], "JC1110", "takes no arguments"),
    (["backends", "local"], "JC1110", "takes no arguments"),
    (["explain", "JC0000"], "JC1111", "jobc explain"),
]


@pytest.mark.parametrize(("words", "code", "says"), LINES, ids=lambda value: str(value)[:40])
def test_a_wrong_command_line_is_answered(words: list[str], code: str, says: str, jobc: Jobc) -> None:
    status, printed = jobc(*words)
    assert status == 1
    assert set(codes(printed)) == {code}
    assert says in f"{printed}\n"
    assert max(map(len, printed.splitlines())) < 1100, "a long value does not flood the screen"
    assert not Path("artifacts").exists()
    if code != "JC1111":
        assert_complete(printed)


def test_all_composing_mistakes_are_reported_together(jobc: Jobc) -> None:
    status, printed = jobc("ndoes=2", "modl=3", "optim.lrr=4", "model=gpt", "+seed=1", "hydra.run.dir=x", "task=null")
    assert status == 1
    assert sorted(codes(printed)) == ["JC1102"] * 4 + ["JC1104"] + ["JC1109"] * 2


def test_all_unreadable_words_are_reported_together(jobc: Jobc) -> None:
    status, printed = jobc("env.A=[x", "=3", "env.B=${", "env.C=???")
    assert (status, sorted(codes(printed))) == (1, ["JC1007", "JC1008", "JC1101", "JC1101"])


def test_all_type_mistakes_are_reported_together(jobc: Jobc) -> None:
    words = (
        "nodes=x",
        "gpus=y",
        "time=5",
        "mem=7",
        "name=a b",
        "seed=null",
        "+extra=1",
        "+backend.extra=1",
        "~threads",
    )
    status, printed = jobc(*words)
    assert (status, sorted(codes(printed))) == (1, ["JC1201"] * 2 + ["JC1202"] * 5 + ["JC1203", "JC1204"])


def test_a_word_that_names_nothing_hides_no_type_mistake(jobc: Jobc) -> None:
    _, printed = jobc("nodez=2", "gpus=x", "+env.A={B: 1}")
    assert codes(printed) == ["JC1202", "JC1202", "JC1102"]
    _, printed = jobc("backend=slrm", "gpus=x", "backend.foo=1")
    assert codes(printed) == ["JC1109", "JC1202"], "of which backend's options nobody can tell"


def test_all_interpolation_mistakes_are_reported_together(jobc: Jobc) -> None:
    status, printed = jobc(
        "env.A=${oc.env:HOME}", "env.B=${nmae}", "env.C=${foo:x}", "env.D=${env.E}", "env.E=${env.D}"
    )
    assert (status, sorted(codes(printed))) == (1, ["JC1106"] * 4 + ["JC1107"])


def test_all_contradictions_are_reported_together(jobc: Jobc) -> None:
    status, printed = jobc("gpus=1", "procs=2", "loop.epochs=3", "env.RANK=0", "container=docker", "batch.global=7")
    assert (status, sorted(codes(printed))) == (1, ["JC2001", "JC2003", "JC2004", "JC2006", "JC2009"])


@pytest.mark.parametrize(
    "word", ["name=a\x1b[31mb", "\x1b[31mx=3", "env.X=[\x07", "model=\x1b]0;t\x07", "+x\u202e=3", "--x\x1b[2J"]
)
def test_control_characters_of_the_user_are_shown_not_sent(word: str, jobc: Jobc) -> None:
    status, printed = jobc(word)
    assert status == 1
    assert "\\x" in printed or "\\u202e" in printed


@pytest.mark.parametrize(
    "word",
    [
        "secrets.T=X",
        "secretss.T=X",
        "secret.T=X",
        "+secretss.T=X",
        "++secretss.T=X",
        "~secrets.T=X",
        "secret=X",
        "secrets=X",
        "secrets=[X]",
        "secretss={T:X}",
        "secrets={T:X}",
        "secrets.T=[X]",
        "secrets.A-B=X",
        "secrets.1=X",
        "secrets.T='X",
        "secrets.T=${X",
        "secrets.T@x=X",
        "secrets.T=env:T,X",
    ],
)
@pytest.mark.parametrize("options", [(), ("-m",), ("--format", "json")])
def test_what_may_be_a_secret_is_not_repeated(word: str, options: tuple[str, ...], jobc: Jobc) -> None:
    status, printed = jobc("check", *options, word.replace("X", "hunter2"))
    assert status == 1 and "hunter2" not in printed, printed


def test_what_may_be_a_secret_in_a_file_is_not_shown(jobc: Jobc) -> None:
    write("jobc/cluster/mine.yaml", "# @package _global_\nsecrets: {TOKEN: hunter2}\n")
    _, printed = jobc("check", "cluster=mine")
    assert "project:cluster/mine.yaml:2:18" in printed and "hunter2" not in printed


@pytest.mark.parametrize("word", ["mounts=/data:/data", "network.settings=x", "network.setting.X=1"])
def test_a_list_of_mappings_is_shown_whole(word: str, jobc: Jobc) -> None:
    _, printed = jobc("check", word)
    hint = re.findall(r"= hint: (?:did you mean )?(.*?)\??$", printed, re.MULTILINE)[0]
    assert jobc("check", *shlex.split(hint), "container=docker", "image=x")[0] == 0, hint
