"""Cache the config files that Hydra has merged, for jobs that differ only in values.

In:  one compile's overrides.
Out: the config that Hydra would compose, or the error that it would raise.

Hydra 1.3 merges the files that overrides choose (80% of a compile) and then applies the other overrides one by one.
Most points of a sweep choose the same files, and so does a command line from which a rejected override was removed.
The merged tree is cached together with the file system lookups that it depends on, and is reused until the result of a
lookup changes.
"""

import pickle
from collections.abc import Sequence

from hydra import compose
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, open_dict
from omegaconf.errors import OmegaConfBaseException

from .observed_files import Answers, add_to_recordings, are_answers_unchanged, ask_file_system, record_answers
from .overrides import Override
from .yaml_source import read_files, used_files

COMPOSE_ERRORS = (HydraException, OmegaConfBaseException, RecursionError, ValueError, TypeError)
_MOST = 64  # maximum number of entries, 35 kB each


# (folders, config name, overrides that choose files) -> (config, its files as `root:path` -> text, and the lookups)
# The config is pickled, because unpickling is faster than copying.
_kept: dict[tuple[object, ...], tuple[bytes, dict[str, str], Answers]] = {}
checked_entries: set[tuple[object, ...]] = set()  # checked in this hydra_session(): all its points see the same files


def compose_from_cache(folders: tuple[str, ...], config_name: str, overrides: Sequence[Override]) -> DictConfig:
    """Return the config, including its section `hydra`, built from the cached merge of the files that overrides choose.

    Raises the same errors as Hydra for these overrides, and CompileError for unreadable files.
    folders: the search path that Hydra was initialized with, as absolute paths.
    """
    chosen = [o for o in overrides if o.package or any(ask_file_system("folder", f"{f}/{o.key}") for f in folders)]
    if any(o.canonical.partition("=")[2].startswith("{") for o in chosen):  # a mapping replaces a whole group
        return compose(config_name, [o.canonical for o in overrides], return_hydra_config=True)
    values = OverridesParser.create().parse_overrides([o.canonical for o in overrides if o not in chosen])
    choice = (folders, config_name, *(o.canonical for o in chosen))
    merged = _kept.pop(choice, None)
    if merged is None or (choice not in checked_entries and not are_answers_unchanged(merged[2])):
        used_files.clear()
        with record_answers() as answers:
            tree = compose(config_name, [o.canonical for o in chosen], return_hydra_config=True)
        with open_dict(tree):  # the rest of Hydra's section is half of the config, and nothing reads it
            tree.hydra = {"runtime": {"choices": tree.hydra.runtime.choices}}
        files = {path: text for path, text in read_files.items() if path in used_files}
        merged = pickle.dumps(tree), files, answers
    checked_entries.add(choice)
    pickled, files, answers = merged
    add_to_recordings(answers)
    read_files.update(files)
    used_files.update(files)
    _kept[choice] = merged
    if len(_kept) > _MOST:
        del _kept[next(iter(_kept))]
    config: DictConfig = pickle.loads(pickled)
    ConfigLoaderImpl._apply_overrides_to_config(values, config)
    return config
