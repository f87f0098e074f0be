"""Build hook of the wheel: compiles the Jinja templates, for compiling them at each start costs users time.

Adds `templates/__compiled__/` beside the templates, in the wheel only: a checkout is left as it is, and an
editable install keeps reading the .j2 files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PRECOMPILE = (
    "import sys, pathlib; from jobc.compiler.emit.templating import precompile; precompile(pathlib.Path(sys.argv[1]))"
)
FOLDERS = ("compiler", "backends", "runtime")  # templates, and what templating.py imports
LEFT_OVERS = shutil.ignore_patterns("__pycache__", "__compiled__")


class PrecompileTemplates(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self.scratch = tempfile.TemporaryDirectory()
        package = Path(self.scratch.name, "jobc")
        package.mkdir()
        shutil.copy(Path(self.root, "__init__.py"), package)
        for folder in FOLDERS:
            shutil.copytree(Path(self.root, folder), package / folder, ignore=LEFT_OVERS)
        path = os.pathsep.join(filter(None, (self.scratch.name, os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run([sys.executable, "-c", PRECOMPILE, str(package)], check=True, env=environment)
        for file in sorted(package.glob("**/templates/__compiled__/*")):
            build_data["force_include"][str(file)] = str(file.relative_to(package))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self.scratch.cleanup()
