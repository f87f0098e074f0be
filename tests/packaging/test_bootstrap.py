"""`make` on machines that lack something: one message that explains what to do, and nothing half finished."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT

pytestmark = pytest.mark.xdist_group("packaging")


def make(checkout: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "JOBC_"))}
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(
        command, cwd=checkout, env={**clean, **environment}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def without_ensurepip(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which every Python lacks ensurepip, as on Debian without python3-venv."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['ensurepip'] = None\n")
    return {"PYTHONPATH": str(folder)}


def test_missing_ensurepip_is_one_message_that_says_what_to_install(
    checkout: Path, tmp_path: Path, without_ensurepip: dict[str, str]
):
    venv = tmp_path / "venv"
    result = make(checkout, "demo", JOBC_VENV=str(venv), **without_ensurepip)
    assert result.returncode != 0
    assert "lacks ensurepip\n  install it:    " in result.stderr
    assert "Traceback" not in result.stdout + result.stderr
    assert not venv.exists()


def test_no_python_is_one_message(checkout: Path, tmp_path: Path):
    result = make(checkout, "test", f"PYTHON={tmp_path}/none", JOBC_VENV=str(tmp_path / "venv"))
    assert result.returncode != 0
    assert "error: jobc needs Python 3.10 or newer" in result.stderr


def test_a_folder_of_somebody_else_is_left_alone(checkout: Path, tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("all of it")
    result = make(checkout, "demo", JOBC_VENV=str(tmp_path))
    assert result.returncode != 0
    assert "is not empty and not a virtual environment" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_what_an_interrupted_call_left_is_not_taken_as_finished(
    checkout: Path, tmp_path: Path, without_ensurepip: dict[str, str]
):
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to("/usr/bin/env")
    (venv / "jobc-bootstrap.json").write_text(json.dumps({"ours": True}))
    result = make(checkout, "demo", JOBC_VENV=str(venv), **without_ensurepip)
    assert result.returncode != 0  # it starts over, which is impossible here
    assert not venv.exists()


def test_make_lists_its_targets(checkout: Path):
    listed = make(checkout).stdout
    assert all(f"make {target}" in listed for target in ("demo", "test", "check"))


# ---- hashes


def load_bootstrap() -> Any:
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "tools" / "bootstrap.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["bootstrap"] = module  # where dataclasses look
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def demo_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a wheel in the only place where pip looks."""
    wheel = tmp_path / "demo_package-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("demo_package.py", "")
        archive.writestr("demo_package-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo-package\nVersion: 1\n")
        archive.writestr(
            "demo_package-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("demo_package-1.dist-info/RECORD", "")
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(name, value)
    return wheel


def test_an_artifact_with_its_hash_is_installed(demo_wheel: Path, tmp_path: Path) -> None:
    digest = hashlib.sha256(demo_wheel.read_bytes()).hexdigest()
    pin = f"demo-package==1 \\\n    --hash=sha256:{digest}\n"
    load_bootstrap().install_pins(Path(sys.executable), [pin], "--target", str(tmp_path / "new"))
    assert (tmp_path / "new" / "demo_package.py").exists()


@pytest.mark.parametrize("hashes", [f" --hash=sha256:{'0' * 64}", ""], ids=["another hash", "no hash"])
def test_an_artifact_with_another_hash_or_none_is_refused(
    demo_wheel: Path, tmp_path: Path, hashes: str, capfd: pytest.CaptureFixture[str]
) -> None:
    bootstrap = load_bootstrap()
    with pytest.raises(bootstrap.Refusal, match="pip could not install"):
        bootstrap.install_pins(Path(sys.executable), [f"demo-package==1{hashes}\n"], "--target", str(tmp_path / "new"))
    assert re.search("DO NOT MATCH THE HASHES|Hashes are required", capfd.readouterr().err)
    assert not (tmp_path / "new" / "demo_package.py").exists()


def test_a_package_without_a_pin_is_refused() -> None:
    bootstrap = load_bootstrap()
    with pytest.raises(bootstrap.Refusal, match=r"has no hashes for numpy 0\.1"):
        bootstrap.pin_of(bootstrap.read_pins(), bootstrap.Package("numpy", "0.1", "", ""))


@pytest.mark.parametrize("folder", [".", "tests/skypilot"])
def test_every_pin_has_hashes(folder: str) -> None:
    words = re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / folder / "constraints.txt").read_text(), re.MULTILINE)
    pinned = {f"{re.sub('[-_.]+', '-', name).lower()}=={version}" for name, version in words}
    blocks = re.split(r"^(?=[^\s#])", (ROOT / folder / "requirements.txt").read_text(), flags=re.MULTILINE)[1:]
    assert len(pinned) > 50 and pinned <= {block.split()[0] for block in blocks}
    assert [block for block in blocks if not re.search(r"--hash=sha256:[0-9a-f]{64}$", block, re.MULTILINE)] == []
