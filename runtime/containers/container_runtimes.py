"""Docker and Apptainer command lines that start a program in a job's container.

Process IDs, the network, the host name, the user and the paths are the same inside and outside, so that `jobctl stop`
and `jobctl status` work from outside. Values of variables are never on a command line, because `ps` would show them.
Source: docker run, Docker 20.10 to 28; apptainer exec, Apptainer 1.1 to 1.5; SingularityCE from 3.10.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

# Variables that are passed to a container if they are set outside, in addition to the job's secrets.
PASSED = (
    "JOBC_*", "SLURM_*", "NCCL_*", "RCCL_*", "TORCH_*", "UCX_*", "FI_*", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HOME", "USER", "LOGNAME", "TMPDIR", "TERM", "LANG", "LC_ALL", "TZ",
    "http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
)  # fmt: skip
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")


class ContainerDevices(NamedTuple):
    """The devices of this node that the container can access. rocm_groups: the AMD devices' group IDs, if any"""

    nvidia: bool = False
    rocm_groups: tuple[int, ...] = ()
    infiniband: bool = False


class ContainerStart(NamedTuple):
    """Settings for one start of an image.

    image:     a name for Docker, or a path or URL for Apptainer.
    mounts:    values for --mount.
    variables: names of the variables to pass to the container.
    options:   words from container.options.
    shm_bytes: size of /dev/shm, or None to use the host's.
    """

    image: str
    workdir: str
    mounts: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    devices: ContainerDevices = ContainerDevices()
    shm_bytes: int | None = None


def mount_option_value(source: str, target: str, read_only: bool) -> str:
    """Return the value for --mount, which is a CSV line in both runtimes."""
    fields = (f"{name}={path}".replace('"', '""') for name, path in (("source", source), ("target", target)))
    return ",".join(["type=bind", *(f'"{field}"' for field in fields), *(["readonly"] if read_only else [])])


def variables_to_pass(names: Iterable[str], secrets: Iterable[str]) -> tuple[str, ...]:
    """Return the sorted names of the variables that are passed to the container. secrets: the secrets' names"""
    patterns = (*PASSED, *secrets)
    valid = filter(_VARIABLE.fullmatch, names)
    return tuple(sorted(name for name in valid if any(fnmatchcase(name, pattern) for pattern in patterns)))


def node_devices(gpus: int) -> ContainerDevices:
    """Return this node's devices. gpus: how many GPUs the job uses on this node; 0 excludes all"""
    amd = ["/dev/kfd", *sorted(glob.glob("/dev/dri/render*"))] if gpus and os.path.exists("/dev/kfd") else []
    return ContainerDevices(
        bool(gpus) and os.path.exists("/dev/nvidiactl"),
        tuple(os.stat(device).st_gid for device in amd),
        os.path.isdir("/dev/infiniband"),
    )


def first_error_line(output: str) -> str:
    """Return the first line of a runtime's output that reports an error, or else the first non-empty line."""
    lines = [line for line in output.splitlines() if line]
    errors = [line for line in lines if "rror" in line or "FATAL" in line]
    return (errors or lines or [""])[0]


def error_hint(line: str) -> str:
    """Return the hint for a line in which a runtime reports why an image does not start."""
    if "executable file not found" in line:
        return "jobc needs bash and Python 3.10 or newer in the image"
    if "device driver" in line:
        return "install the NVIDIA Container Toolkit on that host"
    return "check image, mounts and container.options"


def docker_command(container: ContainerStart, options: Sequence[str] = ()) -> list[str]:
    """Return the command that starts bash. options: more options of `docker run`"""
    words = [
        "docker",
        "run",
        "--rm",
        "--log-driver=none",
        f"--workdir={container.workdir}",
        "--pid=host",
        "--network=host",
        "--userns=host",
        f"--user={os.getuid()}:{os.getgid()}",
        *(f"--group-add={group}" for group in os.getgroups()),  # access to shared storage often depends on groups
        f"--shm-size={container.shm_bytes}" if container.shm_bytes else "--ipc=host",
        *(f"--env={name}" for name in container.variables),
        *(f"--mount={value}" for value in container.mounts),
    ]
    if container.devices.nvidia:
        words.append("--gpus=all")  # CUDA_VISIBLE_DEVICES is passed on, with the same meaning inside
    elif container.devices.rocm_groups:  # as in the ROCm manual
        words += ["--device=/dev/kfd", "--device=/dev/dri", "--security-opt=seccomp=unconfined"]
        words += [f"--group-add={group}" for group in container.devices.rocm_groups]
    if container.devices.infiniband:
        words += ["--device=/dev/infiniband", "--ulimit=memlock=-1:-1"]
    return [*words, *container.options, *options, "--entrypoint=bash", container.image]


def apptainer_command(container: ContainerStart, program: str) -> list[str]:
    """Return the command that starts bash. program: path to apptainer or singularity; both take the same options."""
    words = [program, "exec", "--cleanenv", "--no-eval"]  # otherwise, a shell would expand the variables' values
    words += [f"--pwd={container.workdir}", *(f"--mount={value}" for value in container.mounts)]
    if container.devices.nvidia:
        words.append("--nv")
    if container.devices.rocm_groups:
        words.append("--rocm")
    return [*words, *container.options, container.image, "bash"]


def apptainer_variables(names: Iterable[str], program: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables, renamed so that Apptainer passes them on. HOME is left out because Apptainer rejects it."""
    prefix = "SINGULARITYENV_" if os.path.basename(program) == "singularity" else "APPTAINERENV_"
    return {prefix + name: environ[name] for name in names if name != "HOME"}
