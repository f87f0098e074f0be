"""Find the image and the folders of a node whose job runs in a Docker or Apptainer container.

In:  the node's settings and environment, and launch.sh's payload.
Out: the command that starts bash in the container, returned only if the image starts. Otherwise, raises NodeFailure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..exit_codes import CRASHED, DATA_BROKEN
from ..node.node_failure import NodeAlreadyRunning, NodeFailure
from ..node.node_settings import NodeSettings
from .container_runtimes import (
    ContainerStart,
    apptainer_command,
    apptainer_variables,
    docker_command,
    error_hint,
    first_error_line,
    mount_option_value,
    node_devices,
    variables_to_pass,
)


class ContainerNode:
    """A node that enters its container."""

    def __init__(self, artifact: Path, settings: NodeSettings, environ: dict[str, str], payload: str) -> None:
        """environ: the container's environment, including the secrets"""
        self.artifact, self.settings, self.environ, self.payload = artifact, settings, environ, payload
        self.chosen = settings.container or {}
        self.runtime, self.image = str(self.chosen["kind"]), str(self.chosen["image"])
        self.host = os.uname().nodename
        self.project = environ.get("JOBC_PROJECT") or os.getcwd()

    def build_command(self) -> list[str] | None:
        """Return the command that starts bash inside, or None if `check` finds no image. Raises NodeFailure."""
        return self._docker_command() if self.runtime == "docker" else self._apptainer_command()

    def _docker_command(self) -> list[str] | None:
        if not self._pull_missing_docker_image():
            return None
        container = self._make_container_start(self.image)
        self._require_bash_in_image(docker_command(container))
        options = []
        if self.payload in ("train", "smoke"):
            options = [f"--name={self._reserve_name()}"]
        elif self.payload == "shell":
            options = ["--interactive", *(["--tty"] if os.isatty(0) and os.isatty(1) else [])]
        return docker_command(container, options)

    def _reserve_name(self) -> str:
        """Return the name of this node's training container. Raises NodeAlreadyRunning.

        Because names are unique, only one such container can run, even without file locks.
        """
        run, attempt, rank = (self.environ[f"JOBC_{name}"] for name in ("RUN_DIR", "ATTEMPT", "NODE_RANK"))
        name = f"jobc-{os.path.basename(run)}-{attempt}-node{rank}-{zlib.crc32(os.fsencode(run))}"
        self._run_command("docker", "rm", "--", name)  # removes a stopped container, but not a running one
        if self._run_command("docker", "container", "inspect", "--", name).returncode == 0:
            title = f"the container {name} already runs on {self.host}"
            raise NodeAlreadyRunning(CRASHED, title, f"docker stop {name}")
        return name

    def _apptainer_command(self) -> list[str]:
        image, program = self._find_apptainer_image()
        container = self._make_container_start(image)
        self.environ.update(apptainer_variables(container.variables, program, self.environ))
        command = apptainer_command(container, program)
        self._require_bash_in_image(command)
        return command

    def _pull_missing_docker_image(self) -> bool:
        """Pull the image if this node lacks it. Return False if it is missing and the payload is check."""
        if not self._find_program("docker"):
            raise NodeFailure(
                DATA_BROKEN,
                f"docker was not found on {self.host}",
                "install Docker on that host; or container=apptainer",
            )
        done = self._run_command("docker", "version", "--format", "{{.Server.Version}}")
        if done.returncode != 0:
            hint = "check that the Docker daemon is running and that you are in the docker group"
            title = f"docker does not respond on {self.host}: {first_error_line(done.stdout)}"
            raise NodeFailure(DATA_BROKEN, title, hint)
        if self._run_command("docker", "image", "inspect", self.image).returncode == 0:
            return True
        if self.payload == "check":
            return False  # the job's start pulls the image and prints that this takes time
        print(f"jobc: {self.host} is pulling the image {self.image}", file=sys.stderr, flush=True)
        done = self._run_command("docker", "pull", "--quiet", self.image)
        if done.returncode != 0:
            title = f"cannot pull the image {self.image} on {self.host}: {first_error_line(done.stdout)}"
            raise NodeFailure(DATA_BROKEN, title, "check the image's name; for a private image, run docker login")
        return True

    def _find_apptainer_image(self) -> tuple[str, str]:
        """Return the path or URL of the image, and the path of apptainer or singularity."""
        image = self.image
        program = self._find_program("apptainer") or self._find_program("singularity")
        if not program:
            hint = "python.modules=[apptainer], if the site provides apptainer as a module"
            raise NodeFailure(DATA_BROKEN, f"neither apptainer nor singularity was found on {self.host}", hint)
        if "://" not in image:
            image = os.path.join(self.project, image)
            if not os.path.exists(image):
                hint = f"{os.path.basename(program)} pull {image} docker://NAME:TAG"
                raise NodeFailure(DATA_BROKEN, f"the image {image} does not exist on {self.host}", hint)
        return image, program

    def _require_bash_in_image(self, command: Sequence[str]) -> None:
        """Raise NodeFailure if bash does not start in the image. In preflight, print a line if it starts."""
        done = self._run_command(*command, "-c", ":")
        if done.returncode != 0:
            line = first_error_line(done.stdout)
            title = f"image {self.image} does not start on {self.host}: {line}"
            raise NodeFailure(DATA_BROKEN, title, error_hint(line))
        if self.payload == "preflight":
            print(f"ok    image {self.image} starts under {self.runtime}", flush=True)

    def _make_container_start(self, image: str) -> ContainerStart:
        return ContainerStart(
            image,
            self._working_directory(),
            tuple(self._mount_options()),
            variables_to_pass(self.environ, self.settings.secrets),
            tuple(self.chosen["options"]),
            node_devices(self.settings.gpus),
            self.settings.shm_bytes,
        )

    def _mount_options(self) -> Iterator[str]:
        """Yield values for --mount: the spec's mounts, then the job's existing folders that are not already a target.

        Raises NodeFailure if one of the spec's paths is missing.
        """
        binds: dict[str, str] = {}
        for mount in self.chosen["mounts"]:
            if not os.path.exists(mount["source"]):
                hint = "this path comes from mounts or storage.data, and must exist on every node"
                raise NodeFailure(DATA_BROKEN, f"{mount['source']} does not exist on {self.host}", hint)
            binds.setdefault(mount["target"], mount_option_value(mount["source"], mount["target"], mount["read_only"]))
        for folder in filter(os.path.isdir, self._job_folders()):
            path = os.path.abspath(folder)
            if path != "/":
                binds.setdefault(path, mount_option_value(path, path, False))
        yield from binds.values()

    def _job_folders(self) -> Iterator[str]:
        environ = self.environ
        yield self.project
        yield os.path.join(self.project, self.settings.code_root)
        run_root = Path(environ.get("JOBC_RUN_ROOT") or self.project).absolute()
        yield str(next(folder for folder in (run_root, *run_root.parents) if os.path.isdir(folder)))
        yield environ.get("TMPDIR") or "/tmp"
        yield environ.get("JOBC_INIT_FROM", "")
        yield environ.get("JOBC_RUN_DIR", "")
        yield str(self.artifact)

    def _working_directory(self) -> str:
        """Return the working directory by the path that the mounts use, which may contain symbolic links."""
        path = self.environ.get("PWD", "")
        return path if os.path.isabs(path) and os.path.realpath(path) == os.getcwd() else os.getcwd()

    def _find_program(self, program: str) -> str:
        return shutil.which(program, path=self.environ.get("PATH")) or ""

    def _run_command(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command without stdin; its stderr is merged into stdout."""
        return subprocess.run(
            command,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
