"""Run the trainer's own startup checks at compile time (JC2020)."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from ...trainer.config import train_json
from ...trainer.lifecycle.errors import BrokenInput
from ..diagnostics.diagnostic import Diagnostic
from ..plan.launch_plan import LaunchPlan, to_mutable_tree


def check(plan: LaunchPlan, is_set: Callable[[str], bool]) -> Iterator[Diagnostic]:
    """Yield JC2020 for each value that the trainer would reject. If an error mentions several keys, the first one that
    the user set is blamed.

    is_set: returns whether the user set a key.
    """
    if not plan.uses_trainer:
        return
    for problem in _parse_errors(plan.train):
        keys = re.findall(r"[a-z_]+\.[a-z_]+", problem) or re.findall(r"^[a-z_]+(?=:)", problem)
        key = next(filter(is_set, keys), keys[0] if keys else "")
        hint = _suggest_fix(plan.train, key) or (f"change {key}" if key else "change the value")
        if example := re.search(r"such as ([\w.]*\w)", problem):
            hint = f"{key}={example[1]}"
        elif f"{key}: missing" in problem:
            hint = f"+{key}=128, for example"
        if key.endswith(".kind"):
            hint = "task=digits or task=gpt_tiny, which set a model and its data"
        yield Diagnostic("JC2020", problem, "the trainer would exit with this error at startup", hint, key=key)


def _parse_errors(train: Any) -> tuple[str, ...]:
    try:
        train_json.parse_train_config(to_mutable_tree(train))
    except BrokenInput as error:
        return tuple(error.details)
    return ()


def _suggest_fix(train: Any, key: str) -> str:
    """Return a `key=value` with a similar number or list, or null, that fixes an error, or "" if there is none."""
    tree = to_mutable_tree(train)
    section, _, name = key.partition(".")
    value = (tree.get(section) or {}).get(name) if name else None
    near: list[Any] = [0.1, 1, 0.0]
    if isinstance(value, list) and not all(isinstance(item, float) for item in value):
        near = [[0], []] if sorted(value) == value else [sorted(value)]
    elif isinstance(value, list):
        near = [[0.1 if i in wrong else v for i, v in enumerate(value)] for wrong in ({0}, {1}, {0, 1})]
    elif isinstance(value, int):
        near = [value + sign * n for n in range(1, 65) for sign in (1, -1)] + [1, None]
    elif not isinstance(value, float):
        return ""
    before = len(_parse_errors(tree))
    for candidate in near:
        tree[section][name] = candidate
        if len(_parse_errors(tree)) < before:
            return f"{key}={'null' if candidate is None else candidate}".replace(" ", "")
    return ""
