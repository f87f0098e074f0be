"""A node enters its container: the words for Docker and Apptainer, the mounted folders, and errors that prevent a
start.

`docker` and `apptainer` are stand-ins that log their arguments. tests/backends/test_containers.py runs real ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobc.runtime.containers.container_runtimes import (
    ContainerDevices,
    ContainerStart,
    apptainer_command,
    apptainer_variables,
    docker_command,
    error_hint,
    first_error_line,
    mount_option_value,
    variables_to_pass,
)
from jobc.tests.packed import write_program

STAND_IN = """#!/bin/bash
printf '%s\\n' "$*" >>"$LOG"
[[ " $* " == *" ${FAILS:-nothing} "* ]] && echo "Error: $FAILS" && exit 125
[[ "$1 $2" != 'container inspect' ]] || exit "${OTHER:-1}"
if [[ $* == *launch.sh* ]]; then env >"$LOG.env"; fi
exit 0
"""
NODE = {
    "name": "demo", "run_folder": "demo", "nodes": 1, "procs": 2, "gpus": 0, "gpu_type": None, "launcher": "spawn",
    "network": {"profile": "auto", "interface": None}, "max_restarts": 0, "max_requeues": 0, "threads": 1,
    "rendezvous": {"backend": "static", "port": 0, "timeout_s": 60}, "grace_s": 5, "time_limit_s": 0,
    "code": {"kind": "none", "root": ".", "repository": None, "commit": None}, "python": "python3",
    "uses_trainer": False, "parallel": "ddp", "shm_bytes": None, "secrets": {}, "data": None, "storage": "shared",
    "caches": {"downloads": None, "compiled": None, "offline": False}, "store": None, "env_aws": {}, "workdir": None,
}  # fmt: skip


class Node:
    """An artifact in a project, and the run folder of its only node."""

    def __init__(self, folder: Path, runtime: str = "docker", image: str = "image:1", **changes: Any) -> None:
        self.project, self.run, self.log = folder / "project", folder / "runs/demo/r1", folder / "log"
        self.artifact = self.project / "artifacts/demo/local"
        for path in (self.artifact / ".jobc", self.run / "state", folder / "bin"):
            path.mkdir(parents=True)
        container = {"kind": runtime, "image": image, "options": ["--option"], "mounts": changes.pop("mounts", [])}
        job = {"job": "demo", "runs": "runs", "node": {**NODE, **changes}, "container": container}
        (self.artifact / ".jobc/job.json").write_text(json.dumps(job))
        write_program(self.artifact, uses_trainer=False)
        self.programs = folder / "bin"
        (self.programs / runtime).write_text(STAND_IN)
        (self.programs / runtime).chmod(0o755)

    def enter(self, payload: str = "train", *words: str, **env: str) -> tuple[int, str]:
        """Return the exit code, and what it printed."""
        environ = {
            "PATH": f"{self.programs}:/usr/bin:/bin", "LOG": str(self.log), "JOBC_PROJECT": str(self.project),
            "JOBC_RUN_DIR": str(self.run), "TMPDIR": str(self.programs), "HOME": "/home/me", **env,
        }  # fmt: skip
        command = [sys.executable, "-I", "-S", str(self.artifact / "jobctl"), "container", "0", payload, *words]
        done = subprocess.run(
            command,
            env=environ,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


# ---- words


def test_a_mount_is_a_line_of_csv() -> None:
    assert mount_option_value('/a,"b"', "/c", True) == 'type=bind,"source=/a,""b""","target=/c",readonly'


def test_only_known_variables_and_secrets_get_into_the_container() -> None:
    names = ["JOBC_X", "NCCL_DEBUG", "http_proxy", "TOKEN", "PATH", "LD_PRELOAD", "JOBC_%%", "HTTP_PROXY", "Http_Proxy"]
    assert variables_to_pass(names, ["TOKEN"]) == ("HTTP_PROXY", "JOBC_X", "NCCL_DEBUG", "TOKEN", "http_proxy")


def test_docker_gets_no_value_of_a_variable() -> None:
    words = docker_command(ContainerStart("image:1", "/w", ("m",), ("TOKEN",), ("--option",)), ["--name=x"])
    assert words[:5] == ["docker", "run", "--rm", "--log-driver=none", "--workdir=/w"]
    assert "--env=TOKEN" in words and "--mount=m" in words and "--ipc=host" in words
    assert words[-4:] == ["--option", "--name=x", "--entrypoint=bash", "image:1"]
    assert f"--user={os.getuid()}:{os.getgid()}" in words
    assert {f"--group-add={group}" for group in os.getgroups()} <= {*words}


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        (ContainerDevices(nvidia=True), ["--gpus=all"]),
        (ContainerDevices(rocm_groups=(44, 109)), ["--device=/dev/kfd", "--device=/dev/dri", "--group-add=109"]),
        (ContainerDevices(infiniband=True), ["--device=/dev/infiniband", "--ulimit=memlock=-1:-1"]),
    ],
)
def test_docker_gets_the_devices_of_the_node(devices: ContainerDevices, expected: list[str]) -> None:
    words = docker_command(ContainerStart("image:1", "/w", devices=devices, shm_bytes=64))
    assert set(expected) <= {*words} and "--shm-size=64" in words and "--ipc=host" not in words


def test_apptainer_gets_variables_by_their_prefix_and_its_own_home() -> None:
    environ = {"HOME": "/h", "TOKEN": "$x"}
    assert apptainer_variables(environ, "/bin/apptainer", environ) == {"APPTAINERENV_TOKEN": "$x"}
    assert apptainer_variables(environ, "/bin/singularity", environ) == {"SINGULARITYENV_TOKEN": "$x"}
    words = apptainer_command(
        ContainerStart("x.sif", "/w", ("m",), devices=ContainerDevices(nvidia=True)), "/bin/apptainer"
    )
    assert words == [
        "/bin/apptainer",
        "exec",
        "--cleanenv",
        "--no-eval",
        "--pwd=/w",
        "--mount=m",
        "--nv",
        "x.sif",
        "bash",
    ]


def test_the_reason_is_the_line_with_the_error() -> None:
    assert first_error_line("a warning\n\nFATAL: no such image\nmore") == "FATAL: no such image"
    assert first_error_line("\nno word of it\n") == "no word of it" and first_error_line("") == ""
    assert "bash and Python" in error_hint('exec: "bash": executable file not found in $PATH')


# ---- a start


def test_docker_runs_launch_sh_with_the_folders_of_the_job(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    mounts = [{"source": str(data), "target": "/data", "read_only": True}]
    node = Node(tmp_path, mounts=mounts, secrets={"TOKEN": {"kind": "env", "ref": "MINE"}}, shm_bytes=1 << 20)
    code, output = node.enter(MINE="s3cret", JOBC_ATTEMPT="2")
    assert code == 0, output
    start = node.calls()[-1]
    assert start.endswith(f"--entrypoint=bash image:1 {node.artifact}/launch.sh 0 train")
    assert f'"source={data}","target=/data",readonly' in start and "--env=TOKEN" in start and "s3cret" not in start
    for folder in (node.project, node.run, node.programs):
        assert f'"source={folder}","target={folder}"' in start
    assert "--name=jobc-r1-2-node0-" in start and "--shm-size=1048576" in start and f"--workdir={node.project}" in start
    passed = dict(line.split("=", 1) for line in Path(f"{node.log}.env").read_text().splitlines())
    assert passed["TOKEN"] == "s3cret" and passed["JOBC_INSIDE"] == "0" and passed["JOBC_JOB_NAME"] == "demo"
    assert passed["JOBC_STARTER"].split()[0].isdigit()


def test_an_image_that_does_not_start_is_recorded_for_status(tmp_path: Path) -> None:
    node = Node(tmp_path)
    code, output = node.enter(FAILS="-c")
    host = os.uname().nodename
    title = f"image image:1 does not start on {host}: Error: -c"
    assert code == 65 and output == f"error: {title}\n  hint: check image, mounts and container.options\n"
    assert (node.run / "exit/0/node_00").read_text() == f"65\nreason={title}\n"


def test_a_missing_image_is_pulled_but_not_by_a_check(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert node.enter("check", FAILS="inspect") == (0, "")
    code, output = node.enter(FAILS="inspect")
    assert code == 0 and "is pulling the image image:1" in output and "pull --quiet image:1" in node.calls()


def test_a_second_container_of_the_node_is_refused_without_a_record(tmp_path: Path) -> None:
    node = Node(tmp_path)
    code, output = node.enter(OTHER="0")
    assert code == 1 and "already runs on" in output and "hint: docker stop jobc-r1-0-node0-" in output
    assert not (node.run / "exit").exists()


def test_preflight_continues_inside_if_a_secret_is_missing(tmp_path: Path) -> None:
    node = Node(tmp_path, secrets={"TOKEN": {"kind": "env", "ref": "MINE"}})
    code, output = node.enter("preflight")
    assert (
        code == 0 and output.startswith("FAIL\tenvironment\tsecret TOKEN: ") and "image:1 starts under docker" in output
    )
    assert "JOBC_INSIDE=1" in Path(f"{node.log}.env").read_text()
    assert node.enter()[0] == 65


def test_preflight_fails_if_the_image_does_not_start(tmp_path: Path) -> None:
    code, output = Node(tmp_path).enter("preflight", FAILS="-c")
    assert code == 1 and output.startswith("error: image image:1 does not start")


@pytest.mark.parametrize(
    ("changes", "env", "title"),
    [
        ({"mounts": [{"source": "/no/such", "target": "/x", "read_only": False}]}, {}, "/no/such does not exist on"),
        ({}, {"PATH": "/nowhere"}, "docker was not found on"),
        ({}, {"FAILS": "version"}, "docker does not respond on"),
        (
            {"runtime": "apptainer", "image": "x.sif"},
            {"PATH": "/nowhere"},
            "neither apptainer nor singularity was found on",
        ),
        ({"runtime": "apptainer", "image": "x.sif"}, {}, "x.sif does not exist on"),
    ],
)
def test_what_is_missing_on_the_node_is_one_line(
    tmp_path: Path, changes: dict[str, Any], env: dict[str, str], title: str
) -> None:
    code, output = Node(tmp_path, **changes).enter(**env)
    assert code == 65 and title in output.splitlines()[0]


@pytest.mark.parametrize(
    ("installed", "program", "prefix"),
    [
        (("apptainer", "singularity"), "apptainer", "APPTAINERENV_"),
        (("singularity",), "singularity", "SINGULARITYENV_"),
    ],
)
def test_singularity_replaces_an_apptainer_that_is_missing(
    tmp_path: Path, installed: tuple[str, ...], program: str, prefix: str
) -> None:
    node = Node(tmp_path, "apptainer", "x.sif", secrets={"TOKEN": {"kind": "env", "ref": "TOKEN"}})
    (node.project / "x.sif").touch()
    for name in ("apptainer", "singularity"):
        path = node.programs / name
        path.write_text(STAND_IN.replace('"$*"', f'"{name} $*"'))
        path.chmod(0o755 if name in installed else 0o644)
    code, output = node.enter("shell", "true", TOKEN="abc")
    assert code == 0, output
    assert node.calls()[-1].startswith(f"{program} exec --cleanenv --no-eval --pwd={node.project} ")
    assert node.calls()[-1].endswith(f"--option {node.project}/x.sif bash {node.artifact}/launch.sh 0 shell true")
    assert f"{prefix}TOKEN=abc" in Path(f"{node.log}.env").read_text().splitlines()
