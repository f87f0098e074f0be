"""Contents of the wheel and the sdist, and that an installed jobc works without a checkout."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("packaging")

PACKAGES = ("compiler", "backends", "conf", "runtime", "trainer")
LEFT_OUT = {"golden", "tests"}


def wheel_contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def package_files(checkout: Path) -> set[str]:
    """Return the files of the checkout that users need: code and data."""
    return {
        f"jobc/{path.relative_to(checkout)}"
        for package in PACKAGES
        for path in (checkout / package).rglob("*")
        if path.is_file() and not LEFT_OUT & set(path.parts)
    } | {"jobc/__init__.py", "jobc/__main__.py", "jobc/py.typed"}


def run(python: Path, cwd: Path, *arguments: str) -> str:
    result = subprocess.run([str(python), *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_wheel_holds_every_file_of_the_packages(checkout: Path, distributions: Path):
    contents = wheel_contents(next(distributions.glob("*.whl")))
    assert {name for name in contents if name.startswith("jobc/")} == package_files(checkout)


def test_wheel_has_nothing_outside_the_package(distributions: Path):
    contents = wheel_contents(next(distributions.glob("*.whl")))
    tops = {name.split("/")[0] for name in contents}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"jobc"}


def test_sdist_builds_the_same_wheel(distributions: Path, tmp_path: Path):
    with tarfile.open(next(distributions.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path)  # of our own making; `filter` came with Python 3.11.4
    source = next(tmp_path.glob("jobc-*"))
    assert not (source / ".dev").exists()
    build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path / "dist")]
    subprocess.run([*build, str(source)], check=True, capture_output=True)
    again = wheel_contents(next((tmp_path / "dist").glob("*.whl")))
    assert again == wheel_contents(next(distributions.glob("*.whl")))


def test_installed_wheel_is_what_is_imported_even_beside_folders_of_the_same_names(installed: Path, tmp_path: Path):
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the wrong one')\n")
    show = "import jobc.compiler, jobc.backends, jobc.trainer as t; print(t.__file__)"
    assert Path(run(installed, tmp_path, "-c", show).strip()).is_relative_to(installed.parent.parent)


def test_importing_jobc_loads_neither_torch_nor_hydra(installed: Path, tmp_path: Path):
    show = "import sys, jobc, jobc.trainer; print({'torch', 'hydra', 'omegaconf', 'jinja2'} & set(sys.modules))"
    assert run(installed, tmp_path, "-c", show).strip() == "set()"


def test_console_script_of_the_wheel_compiles_a_job(installed: Path, tmp_path: Path):
    run(installed.with_name("jobc"), tmp_path, "name=packaged", "procs=2")
    artifact = tmp_path / "artifacts" / "packaged" / "local"
    assert "jobc_trainer/data/digits.b85" in zipfile.ZipFile(artifact / "jobctl").namelist()
