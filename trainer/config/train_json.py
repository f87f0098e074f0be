"""Read train.json strictly.

Input:  train.json, written by the compiler.
Output: TrainConfig, or one BrokenInput that lists every mistake with its path.
Standard library only.
"""

from pathlib import Path

from ...runtime.system.untrusted_files import Unreadable, read_json
from ..lifecycle.errors import BrokenInput
from . import parse as strict
from . import rules
from .schema import TrainConfig


def load_train_json(path: str | Path) -> TrainConfig:
    """Read a train.json file. Raises BrokenInput, naming the file and every mistake in it."""
    try:
        tree = read_json(path)
    except Unreadable as error:
        raise BrokenInput(str(error)) from error
    return parse_train_config(tree, str(path))


def parse_train_config(tree: object, where: str = "train.json") -> TrainConfig:
    """Convert `tree`, a result of json.loads, to a TrainConfig. Raises BrokenInput with every mistake."""
    config, problems = strict.parse_dataclass(tree, TrainConfig)
    problems += rules.find_broken_limits(tree)
    if config is not None and not problems:
        problems += rules.find_contradictions(config)
    if problems:
        raise BrokenInput(f"{where}: {len(problems)} problem{'s' * (len(problems) > 1)}", problems)
    assert config is not None
    return config
