"""Imports between layers: the contracts in pyproject.toml hold, and each of them detects a violation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("packaging")

VIOLATIONS = {
    "compiler/spec/bad.py": "import subprocess\nfrom ...backends import local\nfrom ..plan import lower\n",
    "backends/bad_one/__init__.py": "from .. import bad_two\n",
    "backends/bad_two/__init__.py": "import torch\n",
    "trainer/lifecycle/bad.py": "from ... import compiler\nfrom ..loop import loop\nimport hydra\n",
    "runtime/system/bad.py": "from .. import verbs\n",
    "conf/bad.py": "from .. import trainer\n",
}


def lint_imports(checkout: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(checkout / ".dev"), "COLUMNS": "200", "NO_COLOR": "1"}
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)


def test_layers_hold(checkout: Path):
    result = lint_imports(checkout)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_contract_catches_what_it_forbids(scratch_checkout: Path):
    for name, text in VIOLATIONS.items():
        file = scratch_checkout / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    result = lint_imports(scratch_checkout)
    assert result.returncode != 0
    assert " KEPT" not in result.stdout, result.stdout
    assert result.stdout.count(" BROKEN") == 10, result.stdout
