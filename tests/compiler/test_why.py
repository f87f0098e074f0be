"""`why` is exact: change each spec leaf in turn; the lines that change are the lines attributed to it."""

from __future__ import annotations

import pytest

from jobc.compiler.driver import Compiled, Request, compile_job
from jobc.prove.why import BASES, PRECISION, measure

SLURM = ("name=w", "backend=slurm", "gpus=2")
SSH = ("name=w", "backend=ssh", "hosts=[a,b]")


@pytest.mark.parametrize("base", BASES)
def test_changed_lines_are_the_attributed_lines(base: str) -> None:
    found = measure(BASES[base])
    print("\n".join([*found.missed, *(f"noise: {line}" for line in found.noise)]))
    assert not found.missed
    assert found.precision >= PRECISION
    assert len(found.leaves) >= 40


def keys_of(compiled: Compiled, path: str, text: str) -> set[str]:
    """The spec keys of the first line of a file that has the text."""
    lines = next(a.text.split("\n") for a in compiled.artifacts if a.path == path)
    keys, _ = compiled.source_map.files[path][next(n for n, line in enumerate(lines) if text in line)]
    return set(compiled.source_map.spec_keys(keys))


@pytest.mark.parametrize(
    ("words", "path", "text", "key"),
    [
        (SLURM, "job.sbatch", "#SBATCH --gpus-per-node=2", "gpu_type"),
        ((*SSH, "container=docker", "image=i"), "node.sh", "container_options=()", "container.options"),
        (SSH, "engine.sh", "# shellcheck shell=bash", "storage.run"),
        (SSH, "smoke.sh", "its run folder is temporary", "storage.run"),
        ((*SSH, "storage.run=node"), "README.md", "| `copies.sh` |", "storage.run"),
    ],
)
def test_a_line_depends_on_what_is_empty_in_it(words: tuple[str, ...], path: str, text: str, key: str) -> None:
    assert key in keys_of(compile_job(Request(words)), path, text)


def test_a_block_without_lines_is_no_part_of_the_line_above_it() -> None:
    compiled = compile_job(Request(SLURM))  # `{% if plan.resources.cpus %}` comes next
    assert "cpus" not in keys_of(compiled, "job.sbatch", "#SBATCH --gpus-per-node=2")
