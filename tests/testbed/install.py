"""Check for the programs that the test bed needs, and install missing ones from Debian's packages.

    python tests/testbed/install.py

On Debian or Ubuntu, as root, this installs missing programs without starting or enabling any service. On other systems
it does nothing, and the tests that need a cluster are skipped with the reason. The same applies if apt-get fails; its
messages are then printed. The exit code is always 0. Standard library only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# program -> the package of Debian 12 and Ubuntu 22.04 or newer that contains it
PACKAGES = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "munged": "munge",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "pdsh": "pdsh",
    "clush": "clustershell",
    "rsync": "rsync",
    "mpirun": "openmpi-bin",
    "strace": "strace",
    "ip": "iproute2",
    "docker": "docker.io",
    "dockerd": "docker.io",
    "unshare": "util-linux",
    "nsenter": "util-linux",
}
SERVICES = ("slurmctld", "slurmd", "munge", "ssh", "docker", "containerd")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
POLICY = Path("/usr/sbin/policy-rc.d")  # Debian runs it before it starts a service; 101 means no


def missing() -> list[str]:
    """Return the programs that are not installed."""
    return [program for program in PACKAGES if shutil.which(program, path=PATH) is None]


def reason_against() -> str:
    """Return why a cluster cannot run on this machine; "" if it can."""
    if not sys.platform.startswith("linux"):
        return "the test bed needs Linux namespaces"
    if os.geteuid() != 0:
        return "the test bed needs root, to make namespaces"
    if programs := missing():
        return f"not installed: {', '.join(programs)} (Debian, Ubuntu: python tests/testbed/install.py)"
    namespaces = [
        "unshare",
        "--fork",
        "--pid",
        "--mount",
        "--net",
        "--ipc",
        "--uts",
        "mount",
        "-t",
        "proc",
        "x",
        "/proc",
    ]
    attempt = subprocess.run(namespaces, capture_output=True, text=True, check=False)
    if attempt.returncode != 0:
        return f"no namespaces here (a container without CAP_SYS_ADMIN?): {attempt.stderr.strip()}"
    return ""


def is_debian() -> bool:
    try:
        release = Path("/etc/os-release").read_text()
    except OSError:
        return False
    lines = [line.partition("=")[2].strip('"') for line in release.splitlines() if line.startswith(("ID=", "ID_LIKE="))]
    return not {"debian", "ubuntu"}.isdisjoint(" ".join(lines).split())


@contextmanager
def no_service_starts() -> Iterator[None]:
    """Prevent services from starting: the packages contain services, and this machine belongs to a user."""
    running = [name for name in SERVICES if Path(f"/lib/systemd/system/{name}.service").exists()]
    ours = not POLICY.exists()
    if ours:
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            POLICY.unlink()
        if shutil.which("systemctl"):  # nor at the next boot; services that existed before are not changed
            new = [name for name in SERVICES if name not in running]
            subprocess.run(["systemctl", "--quiet", "disable", *new], capture_output=True, check=False)


def apt(*words: str) -> bool:
    """Return whether apt-get succeeded. If not, its own messages are on stderr."""
    options = ["-q", "-y", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-confold"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PATH": PATH}
    command = ["apt-get", *options, *words]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if result.returncode != 0:
        print(result.stdout, result.stderr, sep="", file=sys.stderr)
    return result.returncode == 0


def main() -> None:
    programs = missing()
    if not programs or os.geteuid() != 0 or not is_debian() or not shutil.which("apt-get"):
        return
    packages = sorted({PACKAGES[program] for program in programs})
    print(f"installing for the test bed: {' '.join(packages)} (services stay off)", flush=True)
    with no_service_starts():
        done = apt("update") and apt("install", "--no-install-recommends", *packages)
    if not done:
        print("apt-get failed; the tests that need a cluster will be skipped", file=sys.stderr)


if __name__ == "__main__":
    main()
