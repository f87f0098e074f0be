"""One container of a pod: its process, its status, and how it ended; the part of a container runtime."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from jobc.tests.testbed import Host
from jobc.tests.testbed.process import Failed, Process, entering, only_child

from .environment import expand, service_links, variables
from .store import Object
from .volumes import Volumes

HERE = Path(__file__).resolve().parent
IMAGE = {  # stands for the image's own environment
    "PATH": f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/root",
}
CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
NEVER = float("inf")


class Container:
    """A container. Creating it does not start it, and raises NotYet if something that it refers to does not exist.

    pod_folder: the pod's folder
    """

    def __init__(self, pod: Object, spec: Object, host: Host, pod_folder: Path, volumes: Volumes) -> None:
        self.name: str = spec["name"]
        self.stays = spec.get("restartPolicy") == "Always"  # an init container with this policy is a sidecar
        self.restarts = 0
        self.folder = pod_folder / self.name
        self._host = host
        self._process: Process | None = None
        self._pid = 0
        self._kill_at, self._killed = NEVER, False
        env = variables(pod, spec, volumes.secrets)
        cluster = {**CLUSTER, **service_links(pod, volumes.services)}
        known = {**cluster, **env}
        command = [expand(word, known) for word in (*spec.get("command", ()), *spec.get("args", ()))]
        hostname = pod["spec"].get("hostname", pod["metadata"]["name"])
        mounts = volumes.mounts(pod, spec, pod_folder)
        self.folder.mkdir(parents=True)
        image = {**IMAGE, "HOSTNAME": hostname, **cluster}
        _write(self.folder / "environment", [f"{name}={value}" for name, value in {**image, **env}.items()])
        _write(self.folder / "command", command)
        (self.folder / "workdir").write_text(spec.get("workingDir", "/"))
        (self.folder / "hostname").write_text(hostname)
        (self.folder / "mounts").write_text("".join("\t".join(row) + "\n" for row in mounts))

    def start(self) -> None:
        """Start or restart the container. The log continues, although Kubernetes keeps one log per start."""
        with self.log.open("ab") as log:
            words = ["unshare", "--fork", "--pid", "--mount", "--uts", "--kill-child", HERE / "pod.sh", self.folder]
            self.restarts += self._process is not None
            self._process, self._pid = self._host.popen(words, cwd="/", stdout=log, stderr=log), 0

    @property
    def has_begun(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        """Return the container's PID 1 as seen by this test: below nsenter and unshare."""
        assert self._process is not None
        if not self._pid:
            self._pid = only_child(self._process.inner_pid)
        return self._pid

    def is_up(self) -> bool:
        """Return whether the container has its root, so that the command has started or has already ended."""
        if self._process is None:
            return False
        try:
            return os.readlink(f"/proc/{self.pid}/root") != "/"
        except (OSError, Failed):
            return True

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def terminate(self, kill_at: float) -> None:
        """Send SIGTERM now, and SIGKILL at that time (monotonic). The kernel ignores SIGTERM for a PID 1 without a
        handler.
        """
        if self._kill_at == NEVER:
            self._kill_at = kill_at
            self.signal(signal.SIGTERM)

    @property
    def is_ending(self) -> bool:
        return self._kill_at < NEVER

    def signal(self, number: int) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, Failed):  # the process has just ended
                os.kill(self.pid, number)

    def exit_code(self) -> int | None:
        """Return the exit code: None before or while the container runs; 128 + N for a signal, as in a container
        runtime.
        """
        if self._process is None:
            return None
        code = self._process.poll()
        if code is None and time.monotonic() > self._kill_at:
            self._killed = True
            self.signal(signal.SIGKILL)
        if code is not None and self._killed:  # unshare does not pass this on
            return 128 + signal.SIGKILL
        return 128 - code if code is not None and code < 0 else code

    def runs(self) -> bool:
        return self.has_begun and self.exit_code() is None

    def wait(self) -> None:
        if self._process is not None:
            self._process.wait()

    def execute(self, command: Sequence[str], **pipes: int) -> subprocess.Popen[bytes]:
        """Run a command next to PID 1, in its namespaces and with its environment."""
        names = (self.folder / "environment").read_text().split("\0")
        enter = entering(self.pid, "--mount", "--uts", "--ipc", "--net", "--pid", "--root")
        folder = (self.folder / "workdir").read_text()
        words = [*enter, "env", "-i", f"--chdir={folder}", *filter(None, names), *command]
        return subprocess.Popen(words, env={"PATH": os.defpath}, start_new_session=True, **pipes)

    def status(self) -> Object:
        """Return the entry for containerStatuses or initContainerStatuses."""
        code = self.exit_code()
        if not self.has_begun:
            state: Object = {"waiting": {"reason": "PodInitializing"}}
        elif code is None:
            state = {"running": {}} if self.is_up() else {"waiting": {"reason": "ContainerCreating"}}
        else:
            text = self.log.read_text(errors="replace") if code else ""
            reason = "StartError" if code == 128 else "Error" if code else "Completed"
            said = "\n".join(text.splitlines()[-80:])[-2048:]
            state = {"terminated": {"exitCode": code, "reason": reason, "message": said}}
        return {"name": self.name, "state": state, "restartCount": self.restarts}


def _write(file: Path, words: Sequence[str]) -> None:
    file.write_text("".join(f"{word}\0" for word in words))
