"""Create the environment of `make test-sky`: SkyPilot, and the wheels that it installs on the nodes.

    python tests/skypilot/install.py FOLDER

FOLDER gets a virtual environment (520 MB) and wheels/ (150 MB), because the test bed's hosts cannot access a package
index. Returns immediately if this is already done. SkyPilot needs its own environment, because its pins of click,
pydantic and others conflict with those of other tools.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import venv
from pathlib import Path

PINS = Path(__file__).with_name("requirements.txt")
BUILDERS = re.compile(r"^(?:setuptools|wheel|packaging)==.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


def main(folder: Path) -> int:
    wanted = hashlib.sha256(PINS.read_bytes() + sys.version.encode()).hexdigest()
    stamp = folder / "made_from"
    if stamp.exists() and stamp.read_text() == wanted:
        return 0
    print(f"making {folder} for make test-sky: about 330 MB to download, 670 MB on disk", flush=True)
    venv.create(folder, clear=True, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    hashed = ["--require-hashes", "--no-deps", "--no-build-isolation", "--requirement"]
    builders = "".join(BUILDERS.findall(PINS.read_text()))  # first, because python-hostlist has no wheel
    subprocess.run([*pip, "install", *hashed, "/dev/stdin"], input=builders.encode(), check=True)
    subprocess.run([*pip, "install", *hashed, str(PINS)], check=True)
    subprocess.run([*pip, "download", *hashed, str(PINS), "--dest", str(folder / "wheels")], check=True)
    wheels = f"[global]\nno-index = true\nfind-links = {folder / 'wheels'}\n"  # SkyPilot builds its own wheel on a host
    (folder / "pip.conf").write_text(wheels)
    stamp.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
