"""The rules of compiler/rules: none fires on a golden. That each fires on its own page is in test_codes.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobc.compiler.diagnostics import CompileError, Diagnostic
from jobc.compiler.driver import plan_sweep
from jobc.compiler.golden import read_case

GOLDEN = Path(__file__).parents[1] / "golden"


def found(case: Path) -> list[Diagnostic]:
    try:
        return [d for planned in plan_sweep(read_case(case)) for d in planned.diagnostics]
    except CompileError as error:
        return list(error.diagnostics)


@pytest.mark.slow
def test_no_rule_fires_on_a_golden() -> None:
    cases = sorted(file.parent for file in GOLDEN.glob("*/*/overrides.txt"))
    assert len(cases) > 90
    fired = {f"{d.code} {case.relative_to(GOLDEN)}" for case in cases for d in found(case) if d.code.startswith("JC30")}
    assert not fired
