"""A user at a shell: runs jobc, with its output and exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from jobc.tests.quick_jobc import QuickJobc

BIN = Path(sys.executable).parent


class Shell:
    """A user with an empty home and an empty project folder."""

    def __init__(self, root: Path, quick_jobc: QuickJobc) -> None:
        self.project, self.home = root / "project", root / "home"
        self.quick_jobc = quick_jobc
        self.environment = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(self.home), "LC_ALL": "C.UTF-8"}
        self.project.mkdir()
        self.home.mkdir()

    def jobc(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.quick_jobc.run(words, self.project, self.environment)

    def run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a command in a separate process; ["jobc", …] is the installed command."""
        return subprocess.run(
            words, cwd=self.project, env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )

    def write(self, path: str, text: str) -> Path:
        file = self.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file
