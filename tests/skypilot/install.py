"""Make the environment of `make test-sky`: SkyPilot, and the wheels that it installs on the nodes.

    python tests/skypilot/install.py FOLDER

FOLDER gets a virtual environment (520 MB) and wheels/ (150 MB), since the test bed's hosts see no package index. Done
already, it returns at once. An environment of its own: SkyPilot pins click, pydantic and others as no other tool does.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

CONSTRAINTS = Path(__file__).with_name("constraints.txt")
HERE = "skypilot[slurm,kubernetes]==0.14.1"  # kubernetes: to validate what goes there
ON_NODES = "skypilot[slurm,remote]==0.14.1"


def main(folder: Path) -> int:
    wanted = hashlib.sha256(CONSTRAINTS.read_bytes() + sys.version.encode()).hexdigest()
    stamp = folder / "made_from"
    if stamp.exists() and stamp.read_text() == wanted:
        return 0
    print(f"making {folder} for make test-sky: about 330 MB to download, 670 MB on disk", flush=True)
    venv.create(folder, clear=True, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    pinned = ["--constraint", str(CONSTRAINTS)]
    subprocess.run([*pip, "install", *pinned, HERE, "uv", "wheel"], check=True)
    own = ["pip", "setuptools", "wheel"]  # that uv seeds an environment with
    subprocess.run([*pip, "download", *pinned, "--dest", str(folder / "wheels"), ON_NODES, *own], check=True)
    stamp.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
