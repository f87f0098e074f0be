"""Jobs that differ in values only share what Hydra does to find and merge their files.

In:  the overrides of one compile.   Out: the config that Hydra composes, or None when only Hydra itself can tell.
Hydra 1.3 merges the files that overrides choose, four fifths of a compile, and then sets the other overrides one by
one. A sweep chooses the same files for most of its points: from the second on the merged tree is kept, with all that
was asked of the file system for it, and is used again while the answers are the same.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hydra import compose
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from .overrides import Override
from .yaml_source import asked, read_files, same_answers

COMPOSE_ERRORS = (HydraException, OmegaConfBaseException, RecursionError, ValueError, TypeError)
_MOST = 64  # of 35 kB each


@dataclass(frozen=True)
class _Merged:
    """config: pickled, which is read back faster than a config is copied; files, answers: see source.py."""

    config: bytes
    files: dict[str, str]
    answers: dict[tuple[str, str], Any]


_kept: dict[tuple[object, ...], _Merged] = {}
_once: set[tuple[object, ...]] = set()  # composed once; most commands compile once, and keeping takes time


def recompose(folders: tuple[str, ...], config_name: str, overrides: Sequence[Override]) -> DictConfig | None:
    """The config with its section `hydra`, in which `overrides` lacks those that choose no file.

    folders: of the search path that Hydra was initialised on, absolute. None: these files are chosen for the first
    time, some override is refused, or one replaces a whole group by a mapping. Raises CompileError for a file that
    cannot be read.
    """
    chosen = [o for o in overrides if o.package or any(os.path.isdir(f"{folder}/{o.key}") for folder in folders)]
    others = [o.canonical for o in overrides if o not in chosen]
    if any(o.is_of_hydra for o in overrides) or any(o.canonical.partition("=")[2].startswith("{") for o in chosen):
        return None
    cache_key = (folders, config_name, *(o.canonical for o in chosen))
    if cache_key not in _once:
        _once.add(cache_key)
        return None
    try:
        merged = _kept.pop(cache_key, None)
        if merged is None or not same_answers(merged.answers):
            asked.clear()
            tree = compose(config_name, [o.canonical for o in chosen], return_hydra_config=True)
            merged = _Merged(pickle.dumps(tree), dict(read_files), dict(asked))
        config: DictConfig = pickle.loads(merged.config)
        ConfigLoaderImpl._apply_overrides_to_config(OverridesParser.create().parse_overrides(others), config)
    except COMPOSE_ERRORS:
        return None  # Hydra is asked for all at once, and says why
    read_files.update(merged.files)
    _kept[cache_key] = merged
    if len(_kept) > _MOST:
        del _kept[next(iter(_kept))]
    return config
