"""Shared by the save campaigns: one small compiled training job and the program that disturbs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest

# A classifier of 700 parameters; every save follows a validation, so that the symlink to the best checkpoint changes as
# well.
OVERRIDES = (
    "name=proof", "task=digits", "model.hidden=8", "model.layers=1", "validation.every_steps=1",
    "validation.max_samples=32",
)  # fmt: skip
TIMEOUT_S = 600


def disturb(folder: Path, *words: str, within: Sequence[str] = ()) -> dict[str, Any]:
    """Return the result of saving_program.py.

    within: a command that runs it, such as unshare
    """
    folder.mkdir(parents=True, exist_ok=True)
    artifact = write_compiled_job(compile_job(CompileRequest(OVERRIDES)), folder / "artifacts")
    program = [sys.executable, "-m", "jobc.prove.saving_program", str(artifact / "train.json"), str(folder), *words]
    done = subprocess.run([*within, *program], capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if done.returncode:
        raise RuntimeError(f"saving_program.py exited with {done.returncode}: {done.stderr[-1500:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))
