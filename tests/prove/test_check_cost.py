"""The bound on what the rules cost is one that a rule can break."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from jobc.compiler.pipeline import compile as driver
from jobc.prove.check_cost import BENCH, GOAL


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.syspath_prepend(str(BENCH.parent))
    spec = importlib.util.spec_from_file_location("check_cost_bench", BENCH)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_rule_that_takes_as_long_as_the_compile_is_over_the_goal(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: object) -> Iterator[None]:
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
        yield from ()

    monkeypatch.setattr(driver.rules, "findings", slow)
    assert bench.measure(3)["ratio_low"] > GOAL


def test_without_rules_nothing_is_found(bench: ModuleType) -> None:
    words = ("backend=slurm", "env.NCCL_IB_HCA=")
    assert [d.code for d in driver.compile_job(driver.CompileRequest(words)).diagnostics] == ["JC3004"]
    with bench.unchecked():
        assert not driver.compile_job(driver.CompileRequest(words)).diagnostics
    assert driver.compile_job(driver.CompileRequest(words)).diagnostics
