"""The words after --, as people write them: which of the rules on a command tell something, and which must not."""

from __future__ import annotations

import pytest

from jobc.compiler.diagnostics import CompileError, Diagnostic
from jobc.compiler.driver import Request, compile_job

RUN = "torchrun --nproc-per-node=4 train.py"


def found(code: str, *command: str, words: tuple[str, ...] = ()) -> list[Diagnostic]:
    try:
        told = compile_job(Request(words, command)).diagnostics
    except CompileError as error:
        told = error.diagnostics
    return [each for each in told if each.code == code]


def in_shell(text: str) -> tuple[str, ...]:
    return ("bash", "-c", text)


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        (RUN.split(), "torchrun"),
        (["/opt/env/bin/torchrun", "train.py"], "torchrun"),
        (["-m", "torch.distributed.run", "train.py"], "torch.distributed.run"),
        (["python3", "-u", "-X", "faulthandler", "-m", "torch.distributed.run", "a.py"], "torch.distributed.run"),
        (["env", "-u", "Y", "X=1", *RUN.split()], "torchrun"),
        (["nohup", "--", "nice", "-n", "5", *RUN.split()], "torchrun"),
        (["env", "X=1", *in_shell(RUN)], "torchrun"),
        (in_shell(f"cd /x && {RUN}"), "torchrun"),
        (in_shell(f"OMP_NUM_THREADS=1 X='a b' {RUN}"), "torchrun"),
        (in_shell(f"nohup {RUN} >log 2>&1"), "torchrun"),
        (in_shell(f"timeout -k 10 2h \\\n  {RUN}"), "torchrun"),
        (in_shell(f"for i in 1 2; do time {RUN}; done"), "torchrun"),
        (in_shell(f"if [[ -e x ]]; then numactl -N 0 {RUN}; fi"), "torchrun"),
        (in_shell("python -m torch.distributed.run --nproc-per-node=4 train.py"), "torch.distributed.run"),
        (in_shell("exec python3 -m accelerate.commands.launch train.py"), "accelerate.commands.launch"),
    ],
)
def test_a_launcher_is_seen_behind_what_starts_it(command: list[str], launcher: str) -> None:
    assert [each.title.split()[0] for each in found("JC3001", *command, words=("procs=4",))] == [launcher]


@pytest.mark.parametrize(
    "command",
    [
        ["python", "train.py", "-m", "torch.distributed.run"],
        ["env", "X=torchrun", "python", "train.py"],
        ["env", "-u", "torchrun", "python", "train.py"],
        in_shell("echo torchrun train.py"),
        in_shell("echo '; torchrun train.py'; python train.py"),
        in_shell("timeout torchrun python train.py"),
        in_shell("LAUNCHER=torchrun python train.py"),
        in_shell("which torchrun && python train.py"),
        in_shell("python -m mypackage --module -m torch.distributed.run"),
    ],
)
def test_the_name_of_a_launcher_elsewhere_is_none(command: list[str]) -> None:
    assert found("JC3001", *command, words=("procs=4",)) == []


HEX = "0123456789abcdef0123456789abcdef01234567"
AWS = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (in_shell(f"WANDB_API_KEY={HEX} python train.py"), "a value for WANDB_API_KEY"),
        (in_shell(f"export AWS_SECRET_ACCESS_KEY='{AWS}'; python train.py"), "a value for AWS_SECRET_ACCESS_KEY"),
        (("env", f"WANDB_API_KEY={HEX}", "python", "train.py"), "a value for WANDB_API_KEY"),
        (in_shell("curl -H 'Authorization: Bearer hf_abcdefghijklmnopqrstuv'"), "what looks like a token"),
        (in_shell("python train.py --lr 0.1 --api-key 'abc'"), "a value for --api-key"),
        (("train.py", "--wandb-key", HEX), "a value for --wandb-key"),
        (("train.py", f"--storage_secret={AWS}52"), "a value for --storage_secret"),
    ],
)
def test_a_secret_in_a_command_is_named_and_not_repeated(command: tuple[str, ...], what: str) -> None:
    (told,) = found("JC3003", *command)
    assert told.title == f"the command holds {what}" and HEX not in f"{told}" and AWS not in f"{told}"


@pytest.mark.parametrize(
    "command",
    [
        in_shell("WANDB_API_KEY=$KEY python train.py"),
        in_shell('export HF_TOKEN="$(cat ~/.token)"; python train.py'),
        in_shell("WANDB_API_KEY=; WANDB_MODE=offline python train.py"),
        in_shell('python train.py --api-key "$KEY" --password ${PASSWORD} --hf-token="$(cat ~/.token)"'),
        in_shell(f"GIT_COMMIT={HEX} python train.py"),
        ("train.py", "--pad-token", "<|endoftext|>", "--eos_token=151643", "--sort-key=num_tokens_per_sample_2048"),
        ("train.py", "--cache-key", HEX, "--ssh-key", "/home/me/.ssh/id_ed25519", "--commit", HEX),
        ("train.py", "--max-token", "1" * 40, "--label_key", "AverageMonthlyTemperaturesOfAllStations"),
    ],
)
def test_what_only_looks_like_a_secret_in_a_command_is_none(command: tuple[str, ...]) -> None:
    assert found("JC3003", *command) == []
