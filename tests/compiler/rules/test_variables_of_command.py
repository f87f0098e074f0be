"""Variables that the command's own shell sets: held to the rules on env (JC2006, JC3004 to JC3006, JC3012)."""

from __future__ import annotations

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError, Diagnostic
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest

from ..diagnosed import found, in_shell

NODES = ("backend=slurm", "nodes=2", "procs=8", "gpus=8", "time=2h")
JUDGED = ("JC2006", "JC3004", "JC3005", "JC3006", "JC3007", "JC3012")


def told(command: tuple[str, ...]) -> list[Diagnostic]:
    try:
        said = compile_job(CompileRequest(NODES, command)).diagnostics
    except CompileError as error:
        said = error.diagnostics
    return [each for each in said if each.code in JUDGED]


@pytest.mark.parametrize(
    ("command", "codes"),
    [
        (in_shell("export NCCL_SOCKET_IFNAME=lo GLOO_SOCKET_IFNAME=^docker; exec python t.py"), ["JC3012", "JC3012"]),
        (in_shell("export NCCL_IB_GID_INDEX=; exec python t.py"), ["JC3004"]),
        (in_shell("cd x && export NCCL_DEBUG='' && timeout 1h python t.py"), ["JC3004"]),
        (in_shell("export NCCL_ASYNC_ERROR_HANDLING=1; exec python t.py"), ["JC3005"]),
        (in_shell("export WORLD_SIZE=1 RANK=0\nexec python t.py"), ["JC2006", "JC2006"]),
        (in_shell("export MASTER_ADDR=$(hostname); ./train"), ["JC2006"]),
        (in_shell("MASTER_PORT=29500 python t.py"), ["JC2006"]),
        (in_shell("declare -x RANK=0; bash -c 'exec python t.py'"), ["JC2006"]),
        (in_shell("cat <<EOF\nexport X=1\nEOF\nexport LOCAL_RANK=0; python t.py"), ["JC2006"]),
        (("env", "CUDA_VISIBLE_DEVICES=0", "python", "t.py"), ["JC3006"]),
        (("env", "-S", "CUDA_VISIBLE_DEVICES=0 python t.py"), ["JC3006"]),
        (("env", "NCCL_NET=", *in_shell("CUDA_VISIBLE_DEVICES=0 exec python t.py")), ["JC3004", "JC3006"]),
    ],
)
def test_a_variable_that_the_shell_sets_is_judged_as_one_of_env(command: tuple[str, ...], codes: list[str]) -> None:
    said = told(command)
    assert sorted(each.code for each in said) == codes
    assert all(each.key == "command" and each.hint and "~env" not in each.hint for each in said)
    assert all(each.judgment for each in said if each.severity.value == "error"), "it may be allowed"


@pytest.mark.parametrize(
    "command",
    [
        in_shell("export RANK=${RANK:-0} MASTER_ADDR=${MASTER_ADDR}; exec python t.py"),
        in_shell("if [ -z $RANK ]; then export RANK=0 WORLD_SIZE=1; fi; exec python t.py"),
        in_shell("[ -n $RANK ] || export RANK=0; [[ $DEBUG ]] && export RANK=0; exec python t.py"),
        in_shell("(export RANK=0; python prep.py); exec python t.py"),
        in_shell("alone() { export RANK=0; }; exec python t.py"),
        in_shell("CUDA_VISIBLE_DEVICES= RANK=0 python prep.py; exec python t.py"),
        in_shell("python t.py && export RANK=0"),
        in_shell("MASTER_ADDR=$(hostname); exec python t.py --head $MASTER_ADDR"),
        in_shell("export PYTHONPATH=src:$PYTHONPATH OMP_NUM_THREADS=4 PYTHONUNBUFFERED=1; exec python t.py"),
        in_shell("CUDA_VISIBLE_DEVICES=$LOCAL_RANK exec python t.py"),
        in_shell("echo export RANK=0; echo 'export RANK=0'; cat <<EOF\nexport RANK=0\nEOF\nexec python t.py"),
        in_shell("export GLOO_SOCKET_IFNAME=eth0 NCCL_SOCKET_IFNAME=$IFACE NCCL_NET=$NET; exec python t.py"),
        in_shell("export PET_NNODES=2; exec python t.py"),  # torchrun has read them before
        in_shell("MASTER_ADDR=$HEAD MASTER_PORT=29511 composer -n 8 t.py"),
        ("python", "t.py", "RANK=0", "CUDA_VISIBLE_DEVICES=0"),
        ("env", "-u", "RANK", "X=1", "python", "t.py", "RANK=0"),
    ],
)
def test_what_may_be_right_or_reaches_no_program_is_not(command: tuple[str, ...]) -> None:
    assert told(command) == []


def test_masks_of_env_and_of_the_command_count_together() -> None:
    (one,) = found(
        "JC3006", "env", "HIP_VISIBLE_DEVICES=0,1", "python", "t.py", words=("gpus=2", "env.ROCR_VISIBLE_DEVICES='0,1'")
    )
    assert (
        one.title == "HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES together" and one.key == "env.ROCR_VISIBLE_DEVICES"
    )


def test_a_hint_says_what_takes_the_place() -> None:
    (one,) = found("JC3005", *in_shell("export NCCL_BLOCKING_WAIT=1; exec python t.py"))
    assert one.hint == "in the command, replace NCCL_BLOCKING_WAIT with TORCH_NCCL_BLOCKING_WAIT=1"
