"""Kind: imports from the current folder. Files in the user's current folder are not part of jobc: no module, package or
plugin there is imported. A job's own program, and a trainer with a `_target_` of the user's, do need their folder.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
JOBC = str(Path(sys.executable).with_name("jobc"))
COMMANDS = (
    pytest.param([JOBC], id="jobc"),
    pytest.param([sys.executable, "-m", "jobc"], id="python -m jobc"),
)
OF_A_JOB: tuple[str, ...] = ("torch", "numpy", "random", "socket", "jobc_trainer", "signal", "json")
if sys.version_info < (3, 11):
    OF_A_JOB = ()  # no PYTHONSAFEPATH
MODULES = ("yaml", "hydra", "omegaconf", "jinja2", "torch", "compiler", "antlr4", "difflib", "json", "numpy", "rich")
TEXT = "open('mark', 'a').write(__name__ + '\\n')\nraise SystemExit('imported from the current folder')\n"


def make_hostile(folder: Path, *names: str) -> None:
    """Write modules and packages that leave a mark when they are imported, and an installed plugin."""
    for name in names:
        (folder / f"{name}.py").write_text(TEXT)
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(TEXT)
    (folder / "evil_plugin.py").write_text(TEXT)
    (folder / "evil-1.dist-info").mkdir()
    (folder / "evil-1.dist-info" / "METADATA").write_text("Name: evil\nVersion: 1\n")
    (folder / "evil-1.dist-info" / "entry_points.txt").write_text("[jobc.backends]\nevil = evil_plugin:BACKEND\n")


def run(folder: Path, words: Sequence[str | Path], **environment: str) -> str:
    done = subprocess.run(
        list(map(str, words)), cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_compile_imports_nothing_of_the_current_folder(tmp_path: Path, command: list[str]) -> None:
    make_hostile(tmp_path, *MODULES)
    run(tmp_path, [*command, "name=x"])
    assert not (tmp_path / "mark").exists()
    assert (tmp_path / "artifacts/x/local/jobctl").exists()


def test_a_path_that_the_user_names_counts(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("open('mark', 'w')\n")
    run(tmp_path, [sys.executable, "-m", "jobc", "--help"], PYTHONPATH=str(tmp_path))
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize("verb", ["submit", "smoke"])
def test_a_job_without_code_of_the_user_imports_nothing_of_the_project(tmp_path: Path, verb: str) -> None:
    run(tmp_path, [JOBC, "name=x", "+task=digits", "loop.steps=1", "loop.epochs=null", "nodes=1",
                   f"python.interpreter={sys.executable}"])  # fmt: skip
    make_hostile(tmp_path, *OF_A_JOB)
    output = run(tmp_path, [tmp_path / "artifacts/x/local/jobctl", verb])
    assert not (tmp_path / "mark").exists(), output


def test_a_program_of_the_user_imports_from_its_folder(tmp_path: Path) -> None:
    run(tmp_path, [JOBC, "name=x", "nodes=1", "launcher=spawn", f"python.interpreter={sys.executable}", "--",
                   "python3", "train.py"])  # fmt: skip
    (tmp_path / "train.py").write_text("import helper\n")
    (tmp_path / "helper.py").write_text("print('helper is here')\n")
    assert "helper is here" in run(tmp_path, [tmp_path / "artifacts/x/local/jobctl", "submit"])


@pytest.mark.parametrize("launcher", ["torchrun", "torch_distributed_launch", "accelerate"])
def test_the_launcher_of_a_program_imports_nothing_of_its_folder(tmp_path: Path, launcher: str) -> None:
    words = ["name=x", "nodes=1", "procs=1", f"launcher={launcher}", f"python.interpreter={sys.executable}"]
    backend = "accelerate" if launcher == "accelerate" else "local"
    run(tmp_path, [JOBC, *words, f"backend={backend}", "--", "python3", "train.py"])
    (tmp_path / "train.py").write_text("import helper\n")
    (tmp_path / "helper.py").write_text("print('helper is here')\n")
    make_hostile(tmp_path, *OF_A_JOB, *(("accelerate", "yaml") if OF_A_JOB else ()))
    assert "helper is here" in run(tmp_path, [tmp_path / f"artifacts/x/{backend}/jobctl", "submit"])
    assert not (tmp_path / "mark").exists()


def test_preflight_imports_nothing_of_the_folder_of_a_program(tmp_path: Path) -> None:
    run(tmp_path, [JOBC, "name=x", f"python.interpreter={sys.executable}", "--", "python3", "train.py"])
    (tmp_path / "train.py").touch()
    make_hostile(tmp_path, "torch", "json", "socket")
    output = run(tmp_path, [tmp_path / "artifacts/x/local/jobctl", "preflight"])
    assert "torch " in output and not (tmp_path / "mark").exists(), output
