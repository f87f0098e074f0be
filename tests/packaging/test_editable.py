"""An editable install works from a checkout folder of any name, and sees new files at once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("packaging")


def test_editable_install_imports_from_the_checkout(editable: tuple[Path, Path], tmp_path: Path):
    python, source = editable
    show = "import jobc.compiler, jobc.trainer, jobc; print(jobc.__file__)"
    result = subprocess.run([str(python), "-c", show], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert Path(result.stdout.strip()).resolve() == source / "__init__.py"


def test_a_new_backend_folder_is_seen_without_a_new_install(editable: tuple[Path, Path], tmp_path: Path):
    python, source = editable
    (source / "backends" / "brand_new").mkdir()
    (source / "backends" / "brand_new" / "__init__.py").write_text("")
    subprocess.run([str(python), "-c", "import jobc.backends.brand_new"], cwd=tmp_path, check=True)


def test_console_script_of_an_editable_install_starts(editable: tuple[Path, Path], tmp_path: Path):
    command = [str(editable[0].with_name("jobc")), "--help"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "jobc" in result.stdout
