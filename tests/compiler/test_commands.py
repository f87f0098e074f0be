"""The words after --, as people write them: which of the rules on a command tell something, and which must not."""

from __future__ import annotations

import subprocess
from pathlib import Path

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
        (("train.py", "--hf_token", "abc123"), "a value for --hf_token"),
        (("train.py", "--db-password=hunter2"), "a value for --db-password"),
        (("train.py", f"--auth_token={AWS}"), "a value for --auth_token"),
        (("train.py", "--use_auth_token", "hf_abcdefghijklmnopqrstuv"), "what looks like a token"),
        (("train.py", "--api_key", "nonesuch"), "a value for --api_key"),
        (in_shell("OPENAI_API_KEY=abc123 python train.py"), "a value for OPENAI_API_KEY"),
        (in_shell("HF_TOKEN=None WANDB_API_KEY=abc123 python train.py"), "a value for WANDB_API_KEY"),
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
        ("train.py", "--use_auth_token", "True"),
        ("train.py", "--use-auth-token=true"),
        ("train.py", "--hf_token", "None"),
        ("train.py", "--hf-token=null", "--auth_token", "no"),
        ("train.py", "--api_key", "EMPTY"),
        ("train.py", "--api-key=sk-no-key-required", "--api_key", "dummy", "--api_key=N/A"),
        ("train.py", "--no-auth-token", "x.txt"),
        ("train.py", "--no_password", "out", "--ask-password", "once", "--reset-password", "x"),
        ("train.py", "--hf-token", "/run/secrets/hf", "--password=~/.password", "--api-key", "@./key"),
        ("train.py", "--hf_token", "env:HF_TOKEN", "--hf_token=<your token>", "--password", "********"),
        ("train.py", "--password-file", "x", "--api-key-name", "MY_KEY", "--hf_token"),
        in_shell("python train.py --hf_token None; python eval.py --use_auth_token True"),
        in_shell("OPENAI_API_KEY=EMPTY HF_TOKEN=none python train.py"),
        ("env", "OPENAI_API_KEY=dummy", "python", "train.py"),
        ("train.py", "--max-token", "1" * 40, "--label_key", "AverageMonthlyTemperaturesOfAllStations"),
    ],
)
def test_what_only_looks_like_a_secret_in_a_command_is_none(command: tuple[str, ...]) -> None:
    assert found("JC3003", *command) == []


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PATH on which python fails and everything else succeeds."""
    folder = tmp_path_factory.mktemp("bin")
    for name in ("python", "cp", "sleep", "pkill", "rm", "sync", "touch", "cat", "nvidia-smi"):
        (folder / name).write_text(f"#!/bin/sh\nexit {3 * (name == 'python')}\n")
        (folder / name).chmod(0o755)
    return folder


def status(text: str, path: Path) -> int:
    """Of bash with the text, where no command but python fails."""
    quiet = f"cd() {{ :; }}; kill() {{ :; }}; /bin/cp() {{ :; }}; disown() {{ :; }}\n{text}"
    done = subprocess.run(["/bin/bash", "-c", quiet], env={"PATH": str(path)}, capture_output=True, check=False)
    return done.returncode


@pytest.mark.parametrize(
    "text",
    [
        "python train.py; echo done",
        "python train.py; cp -r out /nfs/out",
        "python train.py\ncp -r out /nfs/out\n",
        "python train.py; sleep 5  # for the log",
        "set +e; python train.py; kill $(cat mon.pid)",
        "set -e; set +o errexit; python train.py; true",
        "python train.py; pkill -f monitor.py",
        "python train.py; rc=$?",
        "python train.py; rc=$?; echo ended with $rc",
        "python train.py; rm -f lock; exit 0",
        "python train.py || echo failed",
        "set -e; python train.py || echo failed; sync",
        "set -e; python train.py && touch ok; sync",
        "if python train.py; then touch ok; fi; sync",
        "for i in 1 2; do python train.py --seed $i; done; /bin/cp -r out /nfs/out",
        "python a.py & python b.py & wait",
        "set -e; python a.py & python b.py & wait",
        "python train.py &",
        "python monitor.py & python train.py; kill $!",
        "python train.py & sleep 5; disown",
        "(cd src; python train.py; nvidia-smi)",
    ],
)
def test_a_last_command_that_hides_the_status_is_told(text: str, failing: Path) -> None:
    assert len(found("JC3009", *in_shell(text))) == 1
    assert status(text, failing) == 0, "what the rule says is so"


@pytest.mark.parametrize(
    "text",
    [
        "python train.py",
        "python train.py;",
        "python train.py && cp -r out /nfs/out",
        "cd x; python train.py",
        "cp -r /nfs/data . ; exec python train.py",
        "set -e; python train.py; cp -r out /nfs/out",
        "set -euo pipefail\npython train.py\nset +e\ncp -r out /nfs/out",
        "set -e; python monitor.py & python train.py; kill $!",
        "python train.py; status=$?; rm -f lock; exit $status",
        'python train.py; status=$?; rm -f lock; exit "$status"',
        "python train.py; rc=$?; if [ $rc -ne 0 ]; then exit $rc; fi; cp -r out /nfs/out",
        "python train.py || exit 1; cp -r out /nfs/out",
        "python train.py || { rm -f lock; exit 1; }; sync",
        "python train.py; exit",
        "python train.py; rc=$?; sync; [ $rc -eq 0 ]",
        "for i in 1 2; do python train.py --seed $i; done",
        "python a.py & first=$!; python b.py & second=$!; wait $first && wait $second",
        "python train.py & wait $!",
        "python train.py & pid=$!; trap 'kill $pid' TERM; wait \"$pid\"",
        "trap 'rm -f lock' EXIT; python train.py",
        "main() { python train.py; }; main",
        "cleanup() { rm -f lock; }; trap cleanup EXIT; python train.py",
    ],
)
def test_a_status_that_is_kept_is_not(text: str, failing: Path) -> None:
    assert found("JC3009", *in_shell(text)) == []
    assert status(text, failing) != 0, "what the rule relies on is so"


@pytest.mark.parametrize(
    "text",
    [
        "until python train.py; do sleep 60; done; cp -r out /nfs/out",
        "while ! python train.py; do sleep 60; done; sync",
        "python prepare.py; ./train.sh",
        "python prepare.py; bash run/train.sh",
        "python prepare.py; accelerate launch main.py",
        'python prepare.py; "$@"',
        "python -m pip install -e .; my-train --lr 0.1",
        "python --version; nvidia-smi",
        "echo python train.py; echo done",
    ],
)
def test_a_loop_until_it_succeeds_and_another_program_at_the_end_are_left_alone(text: str) -> None:
    assert found("JC3009", *in_shell(text)) == []


@pytest.mark.parametrize(("options", "fires"), [("-c", 1), ("-ec", 0), ("-lc", 1), ("-euxc", 0)])
def test_a_shell_that_stops_keeps_the_status(options: str, fires: int) -> None:
    assert len(found("JC3009", "bash", options, "python train.py; sync")) == fires
    assert len(found("JC3009", "bash", options, "set +e; python train.py; sync")) == 1
