"""Runs one pod on one host: its volumes, its process, its end. What Kubernetes' kubelet and container runtime do."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from jobc.tests.testbed import Host
from jobc.tests.testbed.process import Failed, Process, entering, only_child

from .environment import NotYet, expand, variables
from .store import Object

HERE = Path(__file__).resolve().parent
IMAGE = {  # what the image's own environment would be
    "PATH": f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/root",
}
CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@dataclass
class Running:
    """The process of a pod. folder: of its log and volumes; kill_at: monotonic, once it was told to end."""

    pod: Object
    host: Host
    folder: Path
    process: Process
    started: float = field(default_factory=time.monotonic)
    kill_at: float = float("inf")
    killed: bool = False

    @cached_property
    def pid(self) -> int:
        """PID 1 of the pod, as this test sees it: below nsenter and unshare."""
        return only_child(self.process.inner_pid)

    def is_up(self) -> bool:
        """It has its root, so the command has begun, or has ended."""
        try:
            return os.readlink(f"/proc/{self.pid}/root") != "/"
        except (OSError, Failed):
            return True

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def terminate(self, grace_s: float) -> None:
        """SIGTERM now, SIGKILL after the grace. PID 1 without a handler does not notice the first (kernel)."""
        if self.kill_at == float("inf"):
            self.kill_at = time.monotonic() + grace_s
            self.signal(signal.SIGTERM)

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, Failed):  # it has just ended
            os.kill(self.pid, number)

    def exit_code(self) -> int | None:
        """None while it runs; 128 + N for a signal, as a container runtime has it."""
        code = self.process.poll()
        if code is None and time.monotonic() > self.kill_at:
            self.killed = True
            self.signal(signal.SIGKILL)
        if code is not None and self.killed:  # unshare does not hand that on
            return 128 + signal.SIGKILL
        return 128 - code if code is not None and code < 0 else code

    def execute(self, command: Sequence[str], **pipes: int) -> subprocess.Popen[bytes]:
        """A command beside PID 1, in its namespaces and its environment."""
        names = (self.folder / "environment").read_text().split("\0")
        enter = entering(self.pid, "--mount", "--uts", "--ipc", "--net", "--pid", "--root")
        folder = (self.folder / "workdir").read_text()
        words = [*enter, "env", "-i", f"--chdir={folder}", *filter(None, names), *command]
        return subprocess.Popen(words, env={"PATH": os.defpath}, start_new_session=True, **pipes)


def start(pod: Object, host: Host, folder: Path, volumes: Volumes) -> Running:
    """Raises NotYet when something that the pod names is not there."""
    container = pod["spec"]["containers"][0]
    env = variables(pod, container, volumes.secrets)
    known = {**CLUSTER, **env}
    command = [expand(word, known) for word in (*container.get("command", ()), *container.get("args", ()))]
    hostname = pod["spec"].get("hostname", pod["metadata"]["name"])
    folder.mkdir(parents=True)
    image = {**IMAGE, "HOSTNAME": hostname, **CLUSTER}
    _write(folder / "environment", [f"{name}={value}" for name, value in {**image, **env}.items()])
    _write(folder / "command", command)
    (folder / "workdir").write_text(container.get("workingDir", "/"))
    (folder / "hostname").write_text(hostname)
    (folder / "hosts").write_text("")
    (folder / "mounts").write_text("".join("\t".join(row) + "\n" for row in volumes.mounts(pod, folder)))
    with (folder / "log").open("ab") as log:
        words = ["unshare", "--fork", "--pid", "--mount", "--uts", "--kill-child", HERE / "pod.sh", folder]
        process = host.popen(words, cwd="/", stdout=log, stderr=log)
    return Running(pod, host, folder, process)


def _write(file: Path, words: Sequence[str]) -> None:
    file.write_text("".join(f"{word}\0" for word in words))


@dataclass
class Volumes:
    """What a pod's volumes may name. claims, exports: folder behind a claim, or behind SERVER:/PATH"""

    claims: Mapping[str, Path]
    exports: Mapping[str, Path]
    config_maps: Mapping[str, Object]
    secrets: Mapping[str, Object]

    def mounts(self, pod: Object, folder: Path) -> list[tuple[str, str, str, str]]:
        """KIND SOURCE TARGET OPTIONS of each volumeMount; makes the folders."""
        rows = []
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
        for mount in pod["spec"]["containers"][0].get("volumeMounts", ()):
            volume = volumes[mount["name"]]
            options = "ro" if mount.get("readOnly") else ""
            if "configMap" in volume:
                options = "ro"
                name = volume["configMap"]["name"]
                if name not in self.config_maps and not volume["configMap"].get("optional"):
                    raise NotYet(f'configmap "{name}" not found')
                source = _project(self.config_maps.get(name, {}), folder / "volumes" / mount["name"])
            elif "persistentVolumeClaim" in volume:
                name = volume["persistentVolumeClaim"]["claimName"]
                if name not in self.claims:
                    raise NotYet(f'persistentvolumeclaim "{name}" not found')
                source = self.claims[name]
            elif "nfs" in volume:
                source = self.exports[f"{volume['nfs']['server']}:{volume['nfs']['path']}"]
            elif "hostPath" in volume:
                source = Path(volume["hostPath"]["path"])
            elif volume["emptyDir"].get("medium") == "Memory":
                size = volume["emptyDir"].get("sizeLimit")
                option = f"mode=1777,size={_bytes(size)}" if size else "mode=1777"
                rows.append(("tmpfs", "tmpfs", mount["mountPath"], option))
                continue
            else:
                source = folder / "volumes" / mount["name"]
                source.mkdir(parents=True)
                source.chmod(0o777)
            rows.append(("bind", str(source), mount["mountPath"], options))
        return rows


def _project(config_map: Object, folder: Path) -> Path:
    """A ConfigMap as a folder: KEY -> ..data/KEY, ..data -> ..TIME; mode 0644."""
    data = folder / "..2026_11_21_06_04_38.4145333303"
    data.mkdir(parents=True)
    (folder / "..data").symlink_to(data.name)
    for key, text in config_map.get("data", {}).items():
        (data / key).write_text(text)
        (folder / key).symlink_to(f"..data/{key}")
    return folder


def _bytes(quantity: str) -> int:
    units = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
    return int(quantity[:-2]) * units[quantity[-2:]] if quantity[-2:] in units else int(quantity)
