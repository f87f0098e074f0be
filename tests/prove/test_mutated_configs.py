"""The campaign of broken specs, in short: the same generator, fewer configs, always the same ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.prove import mutated_configs


def test_a_broken_spec_gets_a_diagnostic(tmp_path: Path) -> None:
    measured = mutated_configs.judge_apart(0, 12, tmp_path)
    assert not measured["wrong"], "\n".join(measured["wrong"])
    assert measured["compiled"] and len(measured["codes"]) >= 5


def test_an_expanded_value_and_a_script_without_an_end_are_wrong_answers() -> None:
    compiled = compile_job(CompileRequest(("env.A='$(echo a)'", "env.B='x\ny'"), ("train.py", "a  b", "$HOME")))
    assert not list(mutated_configs._changed_values(compiled)) and not list(mutated_configs._invalid_files(compiled))
    for before, after, wrong in (
        ("'$(echo a)'", "$(echo a)", "env.A: bash reads ['a'], but the plan has ('$(echo a)',)"),
        ("'a  b'", "a  b", "command: bash reads ["),
        ("\n)\n", "\n\n", "bash cannot parse launch.sh"),
    ):
        files = tuple(
            dataclasses.replace(file, text=file.text.replace(before, after)) if file.path == "launch.sh" else file
            for file in compiled.artifacts
        )
        changed = dataclasses.replace(compiled, artifacts=files)
        found = [*mutated_configs._changed_values(changed), *mutated_configs._invalid_files(changed)]
        assert len(found) == 1 and found[0].startswith(wrong)
