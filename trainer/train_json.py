"""train.json: its strict reader, and its writer.

In   train.json, written by the compiler
Out  TrainConfig, or one BrokenInput that lists every mistake with its path
Standard library only.
"""

import json
from pathlib import Path

from . import rules, strict
from .config import TrainConfig
from .errors import BrokenInput


def load(path: str | Path) -> TrainConfig:
    """The file's content. Raises BrokenInput, naming the file and every mistake in it."""
    try:
        tree = json.loads(Path(path).read_text(encoding="utf-8"), object_pairs_hook=_unique_keys)
    except OSError as error:
        raise BrokenInput(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BrokenInput(f"{path} is not JSON: {error}") from error
    return parse(tree, str(path))


def parse(tree: object, where: str = "train.json") -> TrainConfig:
    """`tree` (as json.loads gives it) as TrainConfig. Raises BrokenInput with every mistake."""
    config, problems = strict.parse(tree, TrainConfig)
    problems += rules.broken_limits(tree)
    if config is not None and not problems:
        problems += rules.contradictions(config)
    if problems:
        raise BrokenInput(f"{where}: {len(problems)} problem{'s' * (len(problems) > 1)}", problems)
    assert config is not None
    return config


def to_json(config: TrainConfig) -> str:
    """The text of train.json; `parse(json.loads(...))` gives an equal config."""
    return json.dumps(strict.plain(config), indent=2) + "\n"


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = [key for key, _ in pairs]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ValueError(f"key {', '.join(twice)} appears twice in one object")
    return dict(pairs)
