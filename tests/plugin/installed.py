"""Install a package into its own folder, which may be on the path of a jobc in another process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from jobc.tests.quick_jobc import QuickJobc


class Installed:
    """A folder on PYTHONPATH that contains the package, and the location of its sources."""

    def __init__(self, site: Path, source: Path, quick_jobc: QuickJobc) -> None:
        self.site, self.source, self.quick_jobc = site, source, quick_jobc

    def pytest(self, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run the tests in `folder` in a separate process."""
        plugins = ["-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", "-q", *plugins, *words]
        environment = {**self.environment(folder, self.site), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    def jobc(self, *words: str, folder: Path, site: Path | None = None) -> tuple[int, str]:
        done = self.quick_jobc.run(words, folder, self.environment(folder, site or self.site))
        return done.returncode, done.stdout + done.stderr

    def environment(self, folder: Path, site: Path) -> dict[str, str]:
        path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
        outer = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        return {**outer, "PYTHONPATH": path, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


def install(package: Path, folder: Path, quick_jobc: QuickJobc) -> Installed:
    """Copy the sources and install them with pip, without network."""
    source = shutil.copytree(package, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-build-isolation", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(folder / "site"), str(source)], check=True)
    return Installed(folder / "site", source, quick_jobc)
