"""Commands that compose: compile (with -m, --cfg and --info) and check."""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..compose import compose_config, hydra_ready
from ..diagnostics import CompileError, Diagnostic, has_errors
from ..driver import Compiled, Request, check_job, compile_job, compile_sweep, known_keys, search_path, write_job
from ..overrides import read_overrides
from ..spec import OPEN_KEYS
from . import DIAGNOSTICS, OK, report
from .arguments import Arguments


def request(arguments: Arguments) -> Request:
    """What the driver gets. CompileError JC1108 for a --config-dir that is none."""
    if arguments.config_dir is not None and not arguments.config_dir.is_dir():
        because = "there is no such folder"
        raise CompileError(
            [Diagnostic("JC1108", f"--config-dir {arguments.config_dir}", because, "give a folder of YAML files")]
        )
    return Request(arguments.words, arguments.rest, arguments.config_dirs, arguments.config_name, arguments.strict)


def compile_command(arguments: Arguments) -> int:
    wanted = request(arguments)
    if arguments.cfg or arguments.info:
        return _show_config(arguments, wanted)
    if not arguments.multirun:
        gc.disable()  # one compile ends before its garbage is worth collecting
    compiled = compile_sweep(wanted) if arguments.multirun else [compile_job(wanted)]
    _refuse_collisions(compiled)
    for one in compiled:
        report(one.diagnostics)
        target = write_job(one, arguments.out, arguments.force)
        print(f"{show(target)}  {len(one.artifacts)} files, start with {show(target / 'submit.sh')}")
    return OK


def check_command(arguments: Arguments) -> int:
    wanted = request(arguments)
    if arguments.multirun:
        try:
            found = list(dict.fromkeys(d for one in compile_sweep(wanted) for d in one.diagnostics))
        except CompileError as error:
            found = list(error.diagnostics)
    else:
        found = check_job(wanted)
    report(found)
    if not has_errors(found):
        print("no errors")
    return DIAGNOSTICS if has_errors(found) else OK


def show(path: Path) -> str:
    """A path as a user would type it here."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _refuse_collisions(compiled: list[Compiled]) -> None:
    places = [one.place for one in compiled]
    for place, group in itertools.groupby(sorted(places)):
        if len(list(group)) > 1:
            because = "two points of the sweep differ only in characters that a folder name cannot hold"
            raise CompileError(
                [Diagnostic("JC5005", f"two artifacts would be {place}", because, "add name=…,… to the sweep")]
            )


def _show_config(arguments: Arguments, wanted: Request) -> int:
    """--cfg and --info, as Hydra's own applications print them (hydra-core 1.3)."""
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf, open_dict

    overrides = read_overrides(wanted.words, OPEN_KEYS)
    with hydra_ready(search_path(wanted)) as loader:
        config = compose_config(loader, wanted.config_name, overrides, known_keys)
        if arguments.info:
            hydra = GlobalHydra.instance().hydra
            assert hydra is not None
            hydra.show_info(arguments.info, config_name=wanted.config_name, overrides=[o.canonical for o in overrides])
            return OK
        if arguments.cfg == "job":
            with open_dict(config):
                del config["hydra"]
        elif arguments.cfg == "hydra":
            config = OmegaConf.create({"hydra": config["hydra"]})
        if arguments.package:
            config = OmegaConf.select(config, arguments.package)
            if not OmegaConf.is_config(config):
                because = "the composed config has no section of that name"
                raise CompileError(
                    [Diagnostic("JC1102", f"no section {arguments.package}", because, "-p optim, or no -p")]
                )
        print(_yaml(OmegaConf.to_container(config, resolve=False)), end="")
    return OK


def _yaml(tree: object) -> str:
    """The tree with every text plain, as it was written."""
    import yaml

    from ..text import Text, is_null

    class Dumper(yaml.SafeDumper):
        pass

    def text(dumper: Any, value: Text) -> yaml.Node:
        tag = "null" if is_null(value) else "str"
        implicit = dumper.resolve(yaml.ScalarNode, str(value), (True, False))
        style = None if is_null(value) or implicit != "tag:yaml.org,2002:timestamp" else "'"
        return yaml.ScalarNode(implicit if style is None else f"tag:yaml.org,2002:{tag}", str(value), style=style)

    Dumper.add_representer(Text, text)
    Dumper.add_multi_representer(str, lambda d, v: d.represent_str(str(v)))
    Dumper.add_multi_representer(object, lambda d, v: d.represent_str(str(v)))
    return yaml.dump(tree, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=10**9)


COMMANDS: dict[str, Callable[[Arguments], int]] = {"compile": compile_command, "check": check_command}
