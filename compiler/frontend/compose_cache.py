"""Cache Hydra's merged files, for jobs that differ only in values.

In:  the overrides of one compile.   Out: the config that Hydra composes, or None if Hydra itself has to compose it.
Hydra 1.3 merges the files that overrides choose (80% of a compile) and then sets the other overrides one by one. Most
points of a sweep choose the same files. From the second point on, the merged tree is cached together with the answers
of the file system that it depends on, and is reused while those answers are the same.
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
from .yaml_source import asked, files_unchanged, read_files

COMPOSE_ERRORS = (HydraException, OmegaConfBaseException, RecursionError, ValueError, TypeError)
_MOST = 64  # entries, 35 kB each


@dataclass(frozen=True)
class _Merged:
    """A cached config. config: pickled, because unpickling is faster than copying; files: read_files and
    answers: asked, both of yaml_source.py.
    """

    config: bytes
    files: dict[str, str]
    answers: dict[tuple[str, str], Any]


_kept: dict[tuple[object, ...], _Merged] = {}
_once: set[tuple[object, ...]] = set()  # composed once and not cached, because most commands compile only once


def recompose(folders: tuple[str, ...], config_name: str, overrides: Sequence[Override]) -> DictConfig | None:
    """Return the config with its section `hydra`, built from the cached merge of the files that overrides choose.

    folders: absolute search path that Hydra was initialized on. Returns None if these files are chosen for the first
    time, an override is invalid, or one replaces a whole group by a mapping. Raises CompileError for unreadable files.
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
        if merged is None or not files_unchanged(merged.answers):
            asked.clear()
            tree = compose(config_name, [o.canonical for o in chosen], return_hydra_config=True)
            merged = _Merged(pickle.dumps(tree), dict(read_files), dict(asked))
        config: DictConfig = pickle.loads(merged.config)
        ConfigLoaderImpl._apply_overrides_to_config(OverridesParser.create().parse_overrides(others), config)
    except COMPOSE_ERRORS:
        return None  # the caller composes with Hydra, which reports the error
    read_files.update(merged.files)
    _kept[cache_key] = merged
    if len(_kept) > _MOST:
        del _kept[next(iter(_kept))]
    return config
