"""SkyPilot on the test bed: its client and API server on the login host, Slurm's nodes as its machines.

What it would download is in place before each launch (sky down removes it): uv, a Python environment, a wheel house.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from jobc.tests.testbed import Cluster

HERE = Path(__file__).parent
SKY = Path(os.environ.get("JOBC_SKY", ""))
USER_HASH = "0badcafe"  # suffix of every name that SkyPilot creates on Slurm
PORT = "46580"
# A job for the test bed, without its storage, which is a folder that all hosts see.
ON_BED = (
    "backend=skypilot", "backend.infra=slurm/bed", "nodes=4", "procs=2", "cpus=4", "lifecycle.grace=5s", "python=venv",
    f"python.path={sys.prefix}",
)  # fmt: skip


def seed_catalog(home: Path) -> None:
    """Write SkyPilot's lists of GPUs and machines, which it would download from GitHub."""
    shutil.copytree(HERE / "catalog", home / ".sky" / "catalogs" / "v8", dirs_exist_ok=True)


class SkyBed:
    """SkyPilot on a cluster whose hosts can access SKY. Running inside `with`; run() is a shell on the login host, with
    sky on PATH.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.home = cluster.login.home
        seed_catalog(self.home)
        (self.home / ".sky" / "user_hash").write_text(USER_HASH)
        (self.home / ".slurm").mkdir(exist_ok=True)
        identity = self.home / ".ssh" / "id_ed25519"
        lines = ("Host bed", "HostName login", "User root", f"IdentityFile {identity}", "IdentitiesOnly yes")
        (self.home / ".slurm" / "config").write_text("\n    ".join(lines) + "\n")

    def run(self, command: str, timeout_s: float = 240, check: bool = False) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{SKY / 'bin'}:{self.cluster.login.environment['PATH']}",
            "SKYPILOT_DISABLE_USAGE_COLLECTION": "1",
            "SKYPILOT_API_SERVER_LOCAL_PORT": PORT,
        }
        return self.cluster.login.run(command, env=environment, timeout_s=timeout_s, check=check)

    def __enter__(self) -> SkyBed:
        self.run("sky api start && sky check slurm", check=True)
        return self

    def __exit__(self, *exception: object) -> None:
        self.run("sky api stop")

    def seed(self, name: str) -> None:
        """Provide what the nodes of a SkyPilot cluster would download."""
        folder = self.home / ".sky_clusters" / f"{name}-{USER_HASH}"
        (folder / ".local" / "bin").mkdir(parents=True)
        shutil.copy(SKY / "bin" / "uv", folder / ".local" / "bin")
        (folder / ".config" / "uv").mkdir(parents=True)
        house = f'offline = true\nno-index = true\nfind-links = ["{SKY / "wheels"}"]\n'
        (folder / ".config" / "uv" / "uv.toml").write_text(house)
        python = (SKY / "bin" / "python").resolve()
        runtime = f"/tmp/{name}-{USER_HASH}/skypilot-runtime"
        for node in self.cluster.nodes:
            command = f"mkdir -p {Path(runtime).parent} && uv venv --quiet --seed {runtime} --python {python}"
            environment = {"HOME": str(folder), "PATH": f"{folder}/.local/bin:{node.environment['PATH']}"}
            node.run(command, env={**environment, "UV_CACHE_DIR": f"/tmp/uv_cache_{os.getuid()}"}, check=True)
