"""Copies of the checkout for builds and installs, and environments that can be created without network."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def tracked_files() -> list[str]:
    """Return the files that a commit of the whole working tree would contain."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [name for name in listing.stdout.split("\0") if name and (ROOT / name).exists()]


def copy_checkout(target: Path) -> Path:
    for name in tracked_files():
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy, follow_symlinks=False)
    return target


def make_environment(folder: Path) -> Path:
    """Create an environment that borrows the dependencies of the tests' own environment. Return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    borrowed = Path(sysconfig.get_path("purelib"))
    (folder / "lib" / version / "site-packages" / "borrowed.pth").write_text(f"{borrowed}\n")
    return folder / "bin" / "python"


def install(python: Path, *arguments: str) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "-qq",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*command, "--force-reinstall", *arguments], check=True)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_checkout(tmp_path_factory.mktemp("source") / "my checkout-1")


@pytest.fixture(scope="session")
def distributions(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a wheel and an sdist, built from the checkout."""
    target = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--sdist", "--outdir", str(target)]
    subprocess.run([*build, str(checkout)], check=True, capture_output=True)
    return target


@pytest.fixture(scope="session")
def installed(distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment in which the wheel is installed."""
    python = make_environment(tmp_path_factory.mktemp("wheel") / "venv")
    install(python, str(next(distributions.glob("*.whl"))))
    return python


@pytest.fixture(scope="session")
def editable(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return (Python, checkout): a checkout in a folder with an odd name, installed as editable for that Python."""
    folder = tmp_path_factory.mktemp("editable")
    source = copy_checkout(folder / "0 jobc's checkout")
    python = make_environment(folder / "its venv")
    install(python, "--no-build-isolation", "--editable", str(source))
    return python, source


@pytest.fixture
def scratch_checkout(tmp_path: Path) -> Path:
    """Return a copy of the checkout that the test may change."""
    return copy_checkout(tmp_path / "main")
