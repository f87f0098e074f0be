"""Backend local: the conformance suite, and its goldens run on this machine."""

from __future__ import annotations

import io
import re
import shutil
import zipfile
from pathlib import Path

from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.testing.golden import read_golden_case
from jobc.compiler.testing.run_artifact import submit_recording_job
from jobc.compiler.testing.suite import BackendSuite

GOLDEN = Path(__file__).parents[1] / "golden" / "local"


class TestLocal(BackendSuite):
    backend = "local"
    golden = GOLDEN
    neutral_files = True

    def environment(self, project: Path) -> dict[str, str]:
        gpus = {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"}  # jobctl submit counts them
        here = {"MODULESHOME": str(project / "modules"), "MY_TOKEN": "s3cret", **gpus}
        return {**super().environment(project), **here}

    def test_the_environment_of_the_ranks_is_active(self, tmp_path: Path) -> None:
        case = GOLDEN / "venv_and_modules"
        project = shutil.copytree(case / "project", tmp_path / "my project")
        (rank,) = submit_recording_job(compile_job(read_golden_case(case)), project, self.environment(project))
        assert rank.env["VIRTUAL_ENV"] == str(project / "envs" / "train")
        assert rank.env["LOADED"] == "gcc/12 cuda/12.4"

    def test_secrets_arrive_and_are_in_no_file(self, tmp_path: Path) -> None:
        case = GOLDEN / "secrets_by_reference"
        project = shutil.copytree(case / "project", tmp_path / "project")
        (rank,) = submit_recording_job(compile_job(read_golden_case(case)), project, self.environment(project))
        assert (rank.env["HF_TOKEN"], rank.env["WANDB_API_KEY"]) == ("s3cret", "from a file")
        written = b"".join(f.read_bytes() for f in project.rglob("*") if f.is_file() and "received" not in f.name)
        assert b"s3cret" not in written


def test_an_artifact_brings_the_trainer_of_this_jobc_along() -> None:
    root = Path(__file__).parents[2]
    files = {file.path: file.content for file in compile_job(read_golden_case(GOLDEN / "two_processes")).artifacts}
    with zipfile.ZipFile(io.BytesIO(files["jobctl"])) as archive:
        packed = {name: archive.read(name) for name in archive.namelist() if not name.endswith(".pyc")}
    assert packed.pop("__main__.py") == (root / "runtime/__main__.py").read_bytes()
    assert b"class LocalEngine" in packed.pop("jobc_engine.py")
    sources = [p for name in ("runtime", "trainer") for p in (root / name).rglob("*") if p.is_file()]
    texts = {
        f"jobc_{p.relative_to(root).as_posix()}": re.sub(
            rb"from (?:\.\.+|jobc\.)runtime\b", b"from jobc_runtime", p.read_bytes()
        )
        for p in sources
        if "__pycache__" not in p.parts
    }
    assert packed.items() <= texts.items()
    left_out = texts.keys() - packed.keys()
    assert all(name.startswith("jobc_runtime/") for name in left_out), "only programs of other jobs are left out"
