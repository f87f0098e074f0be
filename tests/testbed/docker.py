"""Docker on hosts of the test bed: each has its own daemon, and one image built from this machine's own programs.

docker = Docker(cluster.nodes[0], root_file_system(folder / "root"), folder / "node1")
docker.host.run(f"docker run --rm {IMAGE} python3 -V")
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

from .host import Host
from .install import PATH
from .process import wait_for

IMAGE = "tiny:1"
TOOLS = (
    "bash sh cat chmod cut date df dirname basename env find grep id ls mkdir mktemp mv rm sed sleep sort stat tail"
    " touch uname"
)
OPTIONS = "--bridge=none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false"  # --network=host only


def root_file_system(folder: Path, tools: str = TOOLS, python: bool = True) -> Path:
    """Create a folder with these tools and this Python, without torch, and with the libraries that they load."""
    files = {Path(found) for name in tools.split() if (found := shutil.which(name, path=PATH))}
    if python:
        files |= {Path(os.path.realpath(sys.executable)), *_standard_library()}
    files |= {Path(word) for word in _loaded_by([file for file in files if file.suffix != ".py"])}
    for file in files:
        place = folder / file.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
        shutil.copymode(file, place)
    for name in ("tmp", "usr/bin", "proc", "sys", "dev", "etc"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "tmp").chmod(0o1777)
    if python:
        (folder / "usr/bin/python3").unlink(missing_ok=True)
        (folder / "usr/bin/python3").symlink_to(os.path.realpath(sys.executable))
    return folder


def _standard_library() -> set[Path]:
    root = Path(sysconfig.get_paths()["stdlib"])
    left_out = {"test", "site-packages", "dist-packages", "idlelib", "tkinter", "ensurepip", "__pycache__"}
    left_out |= {folder.name for folder in root.glob("config-*")}
    return {file for file in root.rglob("*") if file.is_file() and left_out.isdisjoint(file.relative_to(root).parts)}


def _loaded_by(files: list[Path]) -> list[str]:
    """Return the libraries and the loader of the files; [] for scripts."""
    done = subprocess.run(["ldd", *files], capture_output=True, text=True, check=False)
    return [word for word in done.stdout.split() if word.startswith("/") and not word.endswith(":")]


class Docker:
    """A Docker daemon on a host, with the image."""

    def __init__(self, host: Host, root: Path, folder: Path) -> None:
        """folder: for the daemon's data; neither on an overlay nor on the host's own tmpfs"""
        self.host = host
        log = folder / "dockerd.log"
        folder.mkdir(parents=True)
        places = f"--data-root={folder}/data --exec-root=/run/docker --pidfile=/run/docker.pid"
        self._daemon = host.popen(f"exec dockerd {places} {OPTIONS} >{log} 2>&1")
        wait_for(lambda: host.run("docker version").returncode == 0, f"dockerd on {host.hostname}, {log}", 30)
        self.add(IMAGE, root)

    def add(self, image: str, root: Path) -> None:
        """Create an image from a folder."""
        archive = root.with_suffix(".tar")
        if not archive.exists():
            with tarfile.open(archive, "w") as tar:
                tar.add(root, ".")
        self.host.run(["docker", "import", archive, image], check=True)

    def containers(self) -> list[str]:
        """Return the names of all containers, including those that have ended."""
        return self.host.run("docker ps --all --format '{{.Names}}'", check=True).stdout.split()

    def close(self) -> None:
        self._daemon.terminate()
        self._daemon.wait(30)
