"""The equivalence check: what the user says, in words that jobc's own scripts would be wrong with, is no difference."""

from __future__ import annotations

import json

import pytest

from jobc.compiler.driver import Request, compile_job
from jobc.compiler.equivalence.check import check

COMMANDS = (  # each holds what is a mistake in a line of jobc's
    "python prep.py || exit 9; python train.py",
    "if grep CUDA log; then python a.py; fi",
    "find . 'a*' | wc; [[ -n $A && -n $A ]] && list=$(squeue --format=%i)",
    "die() { exit $1; }; python t.py || die 5",
    "cd src\nnodes=2\nMINE=1\npython train.py",
    "echo $bar --x\nls $artifact/logs\nif ((code != 1)); then exit 9; fi\ncase $1 in\n    --foo) x ;;\nesac",
)
POD = (
    "image=x:1", "code=image", "code.root=/app", "storage.root=/s/r",
    "mounts=[{kind: claim, source: c, target: /s, read_only: false}]",
)  # fmt: skip
ON = {
    "local": (),
    "ssh": ("nodes=2", "hosts=node[1-2]"),
    "slurm": ("nodes=2",),
    "kubernetes": ("nodes=2", *POD),
    "skypilot": ("nodes=2", "gpus=1", "gpu_type=H100", "storage.run=node"),
}


def differences(*words: str, command: tuple[str, ...] = ("train.py",)) -> tuple[str, ...]:
    made = compile_job(Request(("name=x", *words), command))
    return check({artifact.path: artifact.text for artifact in made.artifacts}).differences


@pytest.mark.parametrize("backend", ON)
@pytest.mark.parametrize("text", COMMANDS)
def test_a_command_is_the_users_own(backend: str, text: str) -> None:
    assert differences(f"backend={backend}", *ON[backend], command=("bash", "-c", text)) == ()


@pytest.mark.parametrize("backend", ON)
def test_so_are_variables_and_words(backend: str) -> None:
    values = [f"env.M{number}={json.dumps(text)}" for number, text in enumerate([*COMMANDS, " "])]
    words = ("wc", "find", "exit 9", "nodes=7", "die 5")
    assert differences(f"backend={backend}", *ON[backend], *values, command=words) == ()


@pytest.mark.parametrize("root", ["/home/user/code", "../up", "./a", "a/", "a//b", "a/./b", "."])
@pytest.mark.parametrize("code", ["shared", "snapshot"])
def test_a_folder_of_code_may_be_written_in_several_ways(code: str, root: str) -> None:
    assert differences("backend=ssh", *ON["ssh"], f"code={code}", f"code.root={root}") == ()


@pytest.mark.parametrize(
    "machines", ["any_of=[{infra: aws, gpu_type: H100, use_spot: true}]", "ordered=[{gpu_type: H100},{gpu_type: A100}]"]
)
def test_machines_that_would_do_have_the_gpus(machines: str) -> None:
    asked = ("backend=skypilot", "nodes=2", "gpus=8", "storage.run=node", "backend.infra=aws")
    assert differences(*asked, f"backend.{machines}") == ()


EXTRA = {  # below backend.extra
    "kubernetes": (
        "{Pod: {spec: {serviceAccountName: me, runtimeClassName: nvidia, schedulerName: volcano}}}",
        "{Pod: {spec: {containers: {node: {imagePullPolicy: Always, stdin: true}}}}}",
        "{Pod: {spec: {containers: {node: {resources: {requests: {ephemeral-storage: 10Gi}}}}}}}",
        "{Pod: {spec: {containers: {node: {resources: {limits: {ephemeral-storage: 10Gi}}}}}}}",
        "{Pod: {spec: {nodeSelector: {pool: a}, securityContext: {fsGroup: 5}, tolerations: [{key: a}]}}}",
        "{Pod: {spec: {containers: {side: {image: 'y:1'}}}}}",
        "{Job: {spec: {suspend: null}, metadata: {annotations: {a: b}}}}",
    ),
    "slurm": ("{begin: now+1hour, comment: ab}", "{mail-type: END, licenses: 'a:1'}"),
    "skypilot": ("{resources: {use_spot: true, disk_size: 600}}", "{config: {docker: {run_options: [--privileged]}}}"),
}


@pytest.mark.parametrize(("backend", "extra"), [(name, each) for name, some in EXTRA.items() for each in some])
def test_what_backend_extra_adds_is_asked_for(backend: str, extra: str) -> None:
    assert differences(f"backend={backend}", *ON[backend], f"backend.extra={extra}") == ()
