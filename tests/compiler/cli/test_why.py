"""`why` is exact: change each spec leaf in turn; the lines that change are the lines attributed to it."""

from __future__ import annotations

from functools import cache
from zlib import crc32

import pytest

from jobc.compiler.emit.source_map import DIGEST, DIGEST_RULE
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompiledJob, CompileRequest
from jobc.prove.why import BASES, LEAST, PRECISION, measure

SLURM = ("name=w", "backend=slurm", "gpus=2")
KUBERNETES = BASES["kubernetes"]
SKYPILOT = ("name=w", "backend=skypilot")


@cache
def jobs_with(key: str) -> list[str]:
    """Return the jobs in BASES that have the key."""
    return [base for base, words in BASES.items() if key in spec_of(words)]


@cache
def spec_of(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(compile_job(CompileRequest(words)).source_map.spec)


def is_taken(base: str, key: str) -> bool:
    """All that one or two jobs have; of what more have every third job, from one on that the key says."""
    jobs = jobs_with(key)
    return len(jobs) < 3 or jobs.index(base) % 3 == crc32(key.encode()) % 3


@pytest.mark.parametrize("base", BASES)
def test_changed_lines_are_the_attributed_lines(base: str) -> None:
    """Each leaf in one job at least; `make prove ARGS=why` changes it in each."""
    found = measure(BASES[base], lambda key: is_taken(base, key))
    print("\n".join([*found.missed, *(f"noise: {line}" for line in found.noise)]))
    assert not found.missed
    assert found.precision >= LEAST.get(base, PRECISION)
    assert len(found.leaves) >= 30


def keys_of(compiled: CompiledJob, path: str, text: str) -> set[str]:
    """The spec keys of the first line of a file that has the text."""
    lines = next(a.text.split("\n") for a in compiled.artifacts if a.path == path)
    keys, _ = compiled.source_map.files[path][next(n for n, line in enumerate(lines) if text in line)]
    return set(compiled.source_map.spec_keys(keys))


@pytest.mark.parametrize(
    ("words", "path", "text", "key"),
    [
        (SLURM, "job.sbatch", "#SBATCH --gpus-per-node=2", "gpu_type"),
    ],
)
def test_a_line_depends_on_what_is_empty_in_it(words: tuple[str, ...], path: str, text: str, key: str) -> None:
    assert key in keys_of(compile_job(CompileRequest(words)), path, text)


def test_a_block_without_lines_is_no_part_of_the_line_above_it() -> None:
    compiled = compile_job(CompileRequest(SLURM))  # `{% if plan.resources.cpus %}` comes next
    assert "cpus" not in keys_of(compiled, "job.sbatch", "#SBATCH --gpus-per-node=2")


@pytest.mark.parametrize(
    ("words", "path", "text", "keys"),
    [
        (KUBERNETES, "job.yaml", "# job.yaml:", {"name"}),
        (KUBERNETES, "job.yaml", "  name: base-", {"name"}),
        (KUBERNETES, ".jobc/job.json", "-shell", {"name"}),
        (KUBERNETES, "job.yaml", "    # launch.sh:", {"name"}),
        (KUBERNETES, "job.yaml", '    {"schema"', {"name", "nodes"}),
        (KUBERNETES, "job.yaml", "resources: {}", {"cpus", "mem"}),
        ((*KUBERNETES, "hosts=[a]"), "job.yaml", "affinity:", {"hosts"}),
        ((*KUBERNETES, "queue.nodelist=[a]"), "job.yaml", "affinity:", {"queue.nodelist"}),
        ((*KUBERNETES, "queue.exclude=[a]"), ".jobc/job.json", '"lone_pod":', {"queue.exclude"}),
        (SKYPILOT, "task.sky.yaml", "# after this idle time", {"backend.autostop"}),
        (SKYPILOT, "spec.yaml", "most_nodes:", {"site.nodes"}),
    ],
)
def test_a_derived_line_leads_to_its_keys(words: tuple[str, ...], path: str, text: str, keys: set[str]) -> None:
    compiled = compile_job(CompileRequest(words))
    assert keys <= {*compiled.source_map.expand_interpolated_keys(keys_of(compiled, path, text))}


@pytest.mark.parametrize(
    ("words", "path", "text"),
    [
        (KUBERNETES, "job.yaml", "  name: base-"),
        (SKYPILOT, "task.sky.yaml", "  JOBC_PLAN:"),
    ],
)
def test_a_digest_is_a_key_of_its_own(words: tuple[str, ...], path: str, text: str) -> None:
    compiled = compile_job(CompileRequest(words))
    lines = next(a.text.split("\n") for a in compiled.artifacts if a.path == path)
    keys, _ = compiled.source_map.files[path][next(n for n, line in enumerate(lines) if text in line)]
    assert DIGEST in keys and compiled.source_map.rules[DIGEST] == DIGEST_RULE
    assert "loop.steps" not in keys_of(compiled, path, text)
