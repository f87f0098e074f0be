"""A package installed into a folder of its own, which a jobc in a process of its own has on its path or has not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

JOBC = "from jobc.compiler.cli import main; raise SystemExit(main())"


class Installed:
    """A folder on PYTHONPATH that holds the package, and where its sources lie."""

    def __init__(self, site: Path, source: Path) -> None:
        self.site, self.source = site, source

    def python(self, *words: str, folder: Path, site: Path | None = None) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(filter(None, [str(site or self.site), os.environ.get("PYTHONPATH")]))
        outer = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        environment = {**outer, "PYTHONPATH": path, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    def jobc(self, *words: str, folder: Path, site: Path | None = None) -> tuple[int, str]:
        done = self.python("-c", JOBC, *words, folder=folder, site=site)
        return done.returncode, done.stdout + done.stderr


def install(package: Path, folder: Path) -> Installed:
    """Copy the sources and install them with pip, from nothing but what is here."""
    source = shutil.copytree(package, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-build-isolation", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(folder / "site"), str(source)], check=True)
    return Installed(folder / "site", source)
