"""Draw keys and values by seed, and compare what jobc and the engine's own classes accept.

Usage  python engine_values.py SEED COUNT   (DS_ACCELERATOR=cpu)
Out    one line of JSON: counts of "both accept", "both refuse", "laxer" and "stricter", and of what only jobc refuses
       because the engine does not check it; "examples" of "stricter": [file, tree, codes]
"""

from __future__ import annotations

import inspect
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import yaml
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env
from deepspeed.runtime import lr_schedules
from deepspeed.runtime.config import DEEPSPEED_OPTIMIZERS, DeepSpeedConfig

from jobc.compiler.checks.accelerate import check
from jobc.compiler.diagnostics.diagnostic import Severity
from jobc.compiler.launchers.accelerate.engine_tables import load_engine_tables, rule_literals, section_keys
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.compiler.plan.launch_plan import LaunchPlan

VALUES: tuple[Any, ...] = (
    True, False, 0, 1, -1, 2, 7, 0.5, 1.0, 1.5, -0.5, 1e9, 5e8, 1e-6, "auto", "text", "", "true", "False", "yes", "On",
    "0", "12", "1e3", "1.0", "-3", "1_000", "cpu", "none", "fp16", "BF16", "Warn", "step", [], ["a"], [1], [0.9, 0.95],
    {}, {"a": 1},
)  # fmt: skip
NONSENSE = {"a": [{}]}  # a key for which the engine accepts this is not checked
NOT_THE_ENGINES = {"JC4600", "JC4604"}  # keys that the plan sets, and keys that nothing reads
NOT_COMPARED = (("gpu_ids",), ("comet", "api_key"))  # read by CUDA; a secret
NAMES = {"optimizer": (torch.optim,), "scheduler": (lr_schedules, torch.optim.lr_scheduler)}
NEEDED = {
    "cycle_min_lr": 0.1, "cycle_max_lr": 0.2, "total_num_steps": 9, "T_max": 9, "T_0": 9, "step_size": 3, "gamma": 0.5,
    "milestones": [2, 4], "base_lr": 0.1, "max_lr": 0.2, "total_steps": 9,
}  # fmt: skip


def paths(section: Mapping[str, Any], at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every path of a table with its type, including whole sections and one misspelt key per section."""
    yield (*at, "no_such_key"), None
    for name, rule in section_keys(at, section, {}).items():
        yield (*at, name), rule
        if isinstance(rule, Mapping):
            yield from paths(rule, (*at, name))


def nested(path: tuple[str, ...], value: Any) -> Any:
    return {path[0]: nested(path[1:], value)} if path else value


def frozen(value: Any) -> Any:
    """Convert lists to tuples, as in jobc."""
    if isinstance(value, Mapping):
        return {key: frozen(inner) for key, inner in value.items()}
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def codes(plan: LaunchPlan, tree: Any, file: str) -> set[str]:
    extras = (tree, {}) if file == "accelerate" else ({}, tree)
    return {d.code for d in check(plan, *map(frozen, extras), "backend") if d.severity is Severity.ERROR}


def deepspeed_accepts(tree: Any) -> bool:
    """Return whether the constructor accepts the tree in any stage, because some keys need a certain stage."""
    for stage in (1, 3):
        zero = tree.get("zero_optimization", {})
        whole = {**tree, "train_micro_batch_size_per_gpu": 1}
        if isinstance(zero, dict):
            whole["zero_optimization"] = {"stage": stage, **zero}
        try:
            DeepSpeedConfig(json.loads(json.dumps(whole)))
        except Exception:
            continue
        return True
    return False


def accelerate_accepts(tree: Any, folder: str) -> bool:
    """Return whether `accelerate launch` reads the file and creates the environment of its processes."""
    file = Path(folder) / "accelerate.yaml"
    base = {
        "distributed_type": "MULTI_GPU",
        "num_processes": 2,
        "num_machines": 1,
        "compute_environment": "LOCAL_MACHINE",
    }
    file.write_text(yaml.safe_dump({**base, **tree}))
    try:
        args, _, _ = _validate_launch_command(
            launch_command_parser().parse_args(["--config_file", str(file), "train.py"])
        )
        prepare_multi_gpu_env(args)
    except Exception:
        return False
    return True


def constructor_accepts(section: str, kind: str, params: Mapping[str, Any]) -> bool:
    """Return whether the optimizer or scheduler can be created with these parameters; required numbers are added."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], momentum=0.9)
    try:
        if section == "optimizer":
            getattr(torch.optim, kind)([torch.nn.Parameter(torch.zeros(1))], **params)
        else:
            of = getattr(lr_schedules, kind, None) or getattr(torch.optim.lr_scheduler, kind)
            known = inspect.signature(of).parameters
            of(optimizer, **{**{name: value for name, value in NEEDED.items() if name in known}, **params})
    except Exception:
        return False
    return True


def places() -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Yield file (or `constructor`, for an optimizer or scheduler), path and type, with one misspelt key per
    section.
    """
    for file in ("accelerate", "deepspeed"):
        yield from ((file, *each) for each in paths(load_engine_tables()[file]))
    for section in ("optimizer", "scheduler"):
        for kind, params in load_engine_tables()[section].items():
            if section == "scheduler" or hasattr(torch.optim, kind):
                yield from (("constructor", (section, kind, *path), rule) for path, rule in paths(params))


def question(file: str, path: tuple[str, ...], value: Any, folder: str) -> tuple[Any, bool]:
    """Return the tree for jobc, and whether the engine accepts it."""
    if file == "constructor":
        section, kind, name = path
        tree = {section: {"type": kind, "params": {name: value}}}
        return tree, constructor_accepts(section, kind, {name: value})
    tree = nested(path, value)
    if path[1:] == ("type",):  # looked up when the optimizer or scheduler is created
        return tree, any(hasattr(of, str(value)) for of in NAMES[path[0]]) or str(value).lower() in DEEPSPEED_OPTIMIZERS
    return tree, deepspeed_accepts(tree) if file == "deepspeed" else accelerate_accepts(tree, folder)


def is_ignored(rule: Any, value: Any) -> bool:
    """Return whether DeepSpeed drops the key without reading it (`auto`), or reads an empty list as false."""
    return (rule is None and value == "auto") or (str(rule).startswith("bool") and value in ([], {}))


def main(seed: int, count: int) -> dict[str, Any]:
    draw = random.Random(seed)
    command = ("backend=accelerate", "procs=2", "parallel=deepspeed")
    plan = compile_job(CompileRequest(command, ("train.py",))).plan
    known = list(places())
    counts, stricter = Counter[str](), []
    with tempfile.TemporaryDirectory() as folder:
        while sum(counts.values()) < count:
            file, path, rule = draw.choice(known)
            of_the_key = rule_literals(rule) if isinstance(rule, str) else []
            value = draw.choice([*VALUES, *(change(word) for word in of_the_key for change in (str, str.upper))])
            tree, theirs = question(file, path, value, folder)
            ours = codes(plan, tree, "accelerate" if file == "accelerate" else "deepspeed")
            if ours & NOT_THE_ENGINES or path in NOT_COMPARED:
                continue
            if theirs and ours:
                is_checked = not is_ignored(rule, value) and not question(file, path, NONSENSE, folder)[1]
                unchecked = (
                    "unknown key that the engine ignores" if rule is None else "type that the engine does not check"
                )
                counts["stricter" if is_checked else unchecked] += 1
                stricter += [[file, tree, sorted(ours)]] if is_checked else []
            else:
                counts["both refuse" if ours else "both accept" if theirs else "laxer"] += 1
    return {**counts, "examples": stricter}


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]))))
