"""The campaign of broken specs, in short: the same generator, fewer configs, always the same ones."""

from __future__ import annotations

from pathlib import Path

from jobc.prove import mutated_configs


def test_a_broken_spec_gets_a_diagnostic(tmp_path: Path) -> None:
    measured = mutated_configs.judge_apart(0, 50, tmp_path)
    assert not measured["wrong"], "\n".join(measured["wrong"])
    assert measured["compiled"] and len(measured["codes"]) > 5
