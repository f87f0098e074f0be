"""Write compiler/launchers/accelerate/engine_tables.json: the keys of accelerate.yaml and deepspeed.json, and their
types.

Usage: python tools/engine_tables.py [--check]   (--check writes nothing and exits with 1 if the file is out of date)
In:    the installed accelerate, DeepSpeed and torch (extras `accelerate`, `deepspeed`, `trainer`)
Out:   key -> type, or the keys of a section. Several types are joined by " or ". A type is any, bool, int, number,
       text, scalar, list, mapping or auto, possibly with bounds (`int>=0`); or words, `a|b`, which begin with ~ if
       their case does not matter.

Where DeepSpeed has a pydantic model, the keys come from the model. Where it reads plain dictionaries, it is passed one
that records each key and its default. Parameters of optimizers and schedulers come from the constructors; the bounds
that torch checks are found by trying values.
"""

from __future__ import annotations

import collections.abc
import enum
import inspect
import json
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import torch
from accelerate.commands.config.config_args import ClusterConfig
from accelerate.commands.launch import launch_command_parser
from accelerate.utils import DynamoBackend, PrecisionType
from deepspeed.comm.config import CommsLoggerConfig
from deepspeed.compile.config import CompileConfig
from deepspeed.inference.config import WeightQuantConfig
from deepspeed.monitor.config import DeepSpeedMonitorConfig
from deepspeed.ops.adagrad import DeepSpeedCPUAdagrad
from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
from deepspeed.ops.lamb import FusedLamb
from deepspeed.ops.lion import DeepSpeedCPULion, FusedLion
from deepspeed.runtime import config, constants, lr_schedules, precision_config
from deepspeed.runtime.config_utils import DeepSpeedConfigModel
from deepspeed.runtime.engine import DeepSpeedEngine
from deepspeed.runtime.model_checkpointing import constants as checkpoint_constants
from deepspeed.runtime.tensor_parallel.config import TPTrainingConfig
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
from deepspeed.utils.config import DeepSpeedThroughputTimerConfig

FILE = Path(__file__).parents[1] / "compiler" / "launchers" / "accelerate" / "engine_tables.json"
Table = dict[str, Any]
KINDS = {bool: "bool", int: "int", float: "number", str: "text", Path: "text"}
SAMPLES = {"text": "x", "list": ["x"], "mapping": {}}
MODELS: dict[str, Any] = {  # section of deepspeed.json -> its model
    "zero_optimization": DeepSpeedZeroConfig,
    "fp16": precision_config.DeepSpeedFP16Config,
    precision_config.BFLOAT16: precision_config.DeepSpeedBF16Config,
    precision_config.BFLOAT16_OLD: precision_config.DeepSpeedBF16Config,
    "comms_logger": CommsLoggerConfig,
    "compile": CompileConfig,
    "hybrid_engine": config.HybridEngineConfig,
    "tensor_parallel": TPTrainingConfig,
    "weight_quantization": WeightQuantConfig,
    **{name: field.annotation for name, field in DeepSpeedMonitorConfig.model_fields.items()},
}
SECRETS = {"comet": "api_key"}  # Comet reads it from COMET_API_KEY; no secret belongs in an artifact's files


# ---- DeepSpeed: pydantic models --------------------------------------------------------------------------------------


def is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, DeepSpeedConfigModel)


def kind_of(annotation: Any) -> Any:
    """Return an annotation's type in the file's words, or "" if JSON cannot express it. A model yields its keys."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if is_model(annotation):
        return model_keys(annotation)
    if origin in (typing.Union, types.UnionType):
        kinds = [kind_of(argument) for argument in inner if argument is not type(None)]
        sections = [kind for kind in kinds if isinstance(kind, dict)]
        return sections[0] if sections else " or ".join(dict.fromkeys(filter(None, kinds)))
    if origin is typing.Literal:
        return "|".join(inner)
    if origin is not None:
        annotation = origin
    if annotation in (Any, object, inspect.Parameter.empty):
        return "any"
    if not isinstance(annotation, type):
        return "any"
    if issubclass(annotation, enum.Enum):
        return "int" if issubclass(annotation, int) else "|".join(member.value for member in annotation)
    if issubclass(annotation, Mapping):
        return "mapping"
    if issubclass(annotation, (list, tuple, typing.Sequence)) and annotation is not str:
        return "list"
    return next((word for kind, word in KINDS.items() if issubclass(annotation, kind)), "")


def model_keys(model: Any) -> Table:
    """Return every field name of a DeepSpeed model, and its alias, because both are accepted."""
    table: Table = {}
    for name, field in model.model_fields.items():
        kind = kind_of(field.annotation)
        if isinstance(kind, str):
            kind = with_bounds(kind, field.metadata)
            extra_kinds = [
                word for word, sample in SAMPLES.items() if word not in kind and accepts(model, name, sample)
            ]
            kind = " or ".join(filter(None, [kind, *extra_kinds])) if kind != "any" else kind
        table |= dict.fromkeys([name, *([field.alias] if field.alias else [])], kind or "auto")
    return table


def accepts(model: Any, name: str, value: Any) -> bool:
    try:
        model(**{name: value})
    except (ValueError, TypeError, AssertionError):
        return False
    return True


def with_bounds(kind: str, metadata: Iterable[Any]) -> str:
    signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
    bounds = [
        (sign, getattr(constraint, name))
        for constraint in metadata
        for name, sign in signs.items()
        if hasattr(constraint, name)
    ]
    return kind + "".join(f"{sign}{bound:g}" for sign, bound in bounds)


def deprecated_keys(model: Any, section: str) -> dict[str, str]:
    extras = {name: field.json_schema_extra or {} for name, field in model.model_fields.items()}
    return {
        f"{section}.{name}": extra.get("new_param", "") for name, extra in extras.items() if extra.get("deprecated")
    }


# ---- DeepSpeed: plain dictionaries -----------------------------------------------------------------------------------


class Recorder(dict[str, Any]):
    """A mapping that records each key that is read, together with its default."""

    def __init__(self, tree: Mapping[str, Any]) -> None:
        super().__init__({key: Recorder(inner) if isinstance(inner, dict) else inner for key, inner in tree.items()})
        self.defaults: dict[str, Any] = {}

    def record(self, key: str, default: Any = None) -> None:
        if self.defaults.get(key) is None:
            self.defaults[key] = default

    def get(self, key: str, default: Any = None) -> Any:
        self.record(key, default)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.record(str(key))
        return super().__contains__(key)

    def __getitem__(self, key: str) -> Any:
        self.record(key)
        return super().__getitem__(key)

    def keys(self) -> Any:
        return self

    def __copy__(self) -> Recorder:
        return self

    def __deepcopy__(self, memo: object) -> Recorder:
        return self

    def table(self) -> Table:
        return {key: self._kind(key, default) for key, default in self.defaults.items()}

    def _kind(self, key: str, default: Any) -> Any:
        recorded = dict.get(self, key)
        if isinstance(recorded, Recorder) and recorded.defaults:
            return recorded.table()
        if isinstance(default, (dict, Recorder)) or isinstance(recorded, Recorder):
            return "mapping"
        if default is None or default == "auto":
            return "any"
        kind = kind_of(type(default))  # nothing checks it: a number may have a fraction, and 2 counts as true
        return {"int": "number", "bool": "bool or number"}.get(kind, kind)


READ: Table = {  # sections that must exist to be read
    "train_micro_batch_size_per_gpu": 2,
    "checkpoint": {"writer": {"type": "FAST"}, "parallel_write": {}},
    "expert_parallel": {"enabled": False},
    "torch_autocast": {"enabled": False},
    "data_efficiency": {"data_sampling": {"curriculum_learning": {}, "dynamic_batching": {}}, "data_routing": {}},
    "optimizer": {"type": "adam", "params": {}},
    "scheduler": {"type": "WarmupLR", "params": {}},
    **{name: {} for name in ("autotuning", "aio", "activation_checkpointing", "flops_profiler", "data_types")},
}
OTHERS: Table = {  # read elsewhere
    "vocabulary_size": "number",  # DeepSpeedConfig._do_warning_check
    "sequence_parallel_size": "number",  # DeepSpeedConfig, with more than one rank
    "datastates_ckpt": {"host_cache_size": "number", "parser_threads": "number"},  # datastates-llm, utils.py
}


def any_case(words: Iterable[str]) -> str:
    return "~" + "|".join(sorted(word for word in words if word))


def deepspeed_keys() -> Table:
    read = Recorder(READ)
    config.DeepSpeedConfig(read)
    table = read.table()
    table |= {name: model_keys(model) for name, model in MODELS.items()} | OTHERS
    table["timers"] = {"throughput": model_keys(DeepSpeedThroughputTimerConfig)}
    pipeline = Recorder({})
    pipeline.defaults = {**config.get_pipeline_config({}), "use_reentrant": True}  # the last: PipelineEngine
    table["pipeline"] = pipeline.table()
    dtypes = any_case(("fp32", "fp16", "bf16"))  # get_communication_data_type
    table |= dict.fromkeys((constants.COMMUNICATION_DATA_TYPE, constants.SEQ_PARALLEL_COMMUNICATION_DATA_TYPE), dtypes)
    table[constants.GRADIENT_ALLREDUCE_OP] = any_case(constants.GRADIENT_ALLREDUCE_OP_SUPPORTED)
    saves = table["checkpoint"]
    saves["tag_validation"] = any_case(constants.CHECKPOINT_TAG_VALIDATION_MODES)
    saves["writer"]["type"] = any_case(checkpoint_constants.CHECKPOINT_WRITER_TYPES)
    saves["writer"]["data_parallel"] = any_case(checkpoint_constants.CHECKPOINT_DATA_PARALLEL_UNITS)
    table["optimizer"] |= {
        "params": "mapping",
        "type": f"{any_case(config.DEEPSPEED_OPTIMIZERS)} or {'|'.join(torch_optimizers())}",
    }
    table["scheduler"] |= {"params": "mapping", "type": "|".join(schedulers())}
    for section, key in SECRETS.items():
        del table[section][key]
    return {key: kind for key, kind in table.items() if key not in removed_keys()}


def removed_keys() -> dict[str, str]:
    """Return the keys that DeepSpeed has removed, as key -> error message without the link to the issue."""
    zero = {f"zero_optimization.{key}": text for key, text in config._REMOVED_ZERO_CONFIG_KEYS.items()}
    messages = {**config._REMOVED_TOP_LEVEL_CONFIG_KEYS, **zero}
    return {key: text.partition(" See http")[0].strip().rstrip(".") for key, text in messages.items()}


# ---- DeepSpeed: optimizers and schedulers ----------------------------------------------------------------------------

POINTS = (-1.0, -1e-9, 0.0, 1e-9, 0.5, 1 - 1e-9, 1.0, 1 + 1e-9, 2.0)  # candidates for bounds, and values beside them


def parameters(of: Any, *leave_out: str) -> Table:
    """Return keyword -> type for a constructor."""
    declared = inspect.signature(of).parameters.values()
    hints = typing.get_type_hints(vars(of)["__init__"], localns=vars(collections.abc))
    skipped = {"self", "params", "model_params", "optimizer", "defaults", *leave_out}
    return {
        parameter.name: parameter_kind(hints.get(parameter.name, parameter.annotation), parameter.default)
        for parameter in declared
        if parameter.name not in skipped and parameter.kind is not parameter.VAR_KEYWORD
    }


def parameter_kind(annotation: Any, default: Any) -> str:
    if annotation is inspect.Parameter.empty and default not in (None, inspect.Parameter.empty):
        annotation = type(default)
    kind = str(kind_of(annotation) or "any")
    kind = "number" if kind in ("int", "int or number", "number or int") else kind
    return f"{kind} or list" if kind == "number" and isinstance(default, tuple) else kind


def torch_optimizers() -> dict[str, Table]:
    members = {name: member for name, member in vars(torch.optim).items() if isinstance(member, type)}
    deepspeed_names = config.DEEPSPEED_OPTIMIZERS
    return {
        name: bounded(member)
        for name, member in sorted(members.items())
        if issubclass(member, torch.optim.Optimizer)
        and member is not torch.optim.Optimizer
        and name.lower() not in deepspeed_names
    }


def bounded(optimizer: Any) -> Table:
    """Return the parameters() of a torch optimizer, with the bounds that its constructor checks."""

    def works(name: str, value: float) -> bool:
        try:
            optimizer([torch.nn.Parameter(torch.zeros(1))], **{name: value})
        except (ValueError, TypeError):
            return False
        return True

    return {
        name: kind + (bounds_of(partial(works, name)) if kind == "number" else "")
        for name, kind in parameters(optimizer).items()
    }


def bounds_of(works: Callable[[float], bool]) -> str:
    results = [works(point) for point in POINTS]
    if True not in results:
        return ""
    first, last = results.index(True), len(results) - 1 - results[::-1].index(True)
    signs = [(">=", ">", first, -1)] if first else []
    signs += [("<=", "<", last, 1)] if last < len(results) - 1 else []
    return "".join(
        f"{closed}{POINTS[index]:g}" if POINTS[index] in (-1, 0, 0.5, 1, 2) else f"{open_}{POINTS[index + step]:g}"
        for closed, open_, index, step in signs
    )


def either(*tables: Table) -> Table:
    """Return the keys of all tables. If two tables disagree about a type, it is `any`."""
    names = dict.fromkeys(name for table in tables for name in table)
    kinds = {name: {table[name] for table in tables if name in table} for name in names}
    return {name: type_names.pop() if len(type_names) == 1 else "any" for name, type_names in kinds.items()}


def optimizers() -> dict[str, Table]:
    """Return name -> params. DeepSpeed's own are in lower case; `adam torch_adam` is Adam and AdamW with torch_adam."""
    chosen = {"torch_adam": "bool", "adam_w_mode": "bool", "fp32_optimizer_states": "bool"}  # read by the engine
    rejected = ("max_grad_norm", "adamw_mode")  # by DeepSpeedEngine._configure_basic_optimizer
    fused = {**either(parameters(DeepSpeedCPUAdam, *rejected), parameters(FusedAdam, *rejected)), **chosen}
    plain = {**bounded(torch.optim.AdamW), **chosen}
    muon = dict.fromkeys((*DeepSpeedEngine._MUON_HALF_KEYS, "muon_lr", "adam_lr"), "number") | {"ns_method": "text"}
    mup = {"decoupled_wd": "bool"}  # mup/optim.py 1.0.0; the rest is passed to torch's optimizer
    deepspeed = {
        "adam": fused,
        "adamw": fused,
        "adam torch_adam": plain,
        "adagrad": either(parameters(DeepSpeedCPUAdagrad), parameters(torch.optim.Adagrad)),
        "lamb": parameters(FusedLamb, *rejected),
        "lion": either(parameters(DeepSpeedCPULion), parameters(FusedLion)),
        "muon": {**either(fused, plain), **muon},  # it drops unknown keys
        "muadam": {**bounded(torch.optim.Adam), **mup},
        "muadamw": {**bounded(torch.optim.AdamW), **mup},
        "musgd": {**bounded(torch.optim.SGD), **mup},
    }
    assert {name.split()[0] for name in deepspeed} == set(config.DEEPSPEED_OPTIMIZERS)
    return deepspeed | torch_optimizers()


NEEDED = {
    "cycle_min_lr": 0.1, "cycle_max_lr": 0.2, "total_num_steps": 9, "T_max": 9, "T_0": 9, "step_size": 3, "gamma": 0.5,
    "milestones": [2, 4], "base_lr": 0.1, "max_lr": 0.2, "total_steps": 9,
}  # fmt: skip


def schedulers() -> dict[str, Table]:
    members = vars(torch.optim.lr_scheduler)
    base = torch.optim.lr_scheduler.LRScheduler
    names = [name for name, member in members.items() if isinstance(member, type) and issubclass(member, base)]
    torch_names = sorted(name for name in {*names, "ReduceLROnPlateau"} if name[0] != "_" and members[name] is not base)
    deepspeed = {name: getattr(lr_schedules, name) for name in lr_schedules.VALID_LR_SCHEDULES}
    return {
        name: scheduler(member) for name, member in ({name: members[name] for name in torch_names} | deepspeed).items()
    }


def scheduler(of: Any) -> Table:
    """Return the parameters() of a scheduler.

    A rate may be a list with one value per group, and some words may be other scalars.
    """
    accepted = inspect.signature(of).parameters
    needed = {name: value for name, value in NEEDED.items() if name in accepted}

    def takes(name: str, value: Any) -> bool:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], momentum=0.9)
        try:
            of(optimizer, **{**needed, name: value})
        except (ValueError, TypeError, AttributeError, KeyError):
            return False
        return True

    others = {"number": ("list", [0.1]), "text": ("scalar", 0)}
    return {
        name: f"{kind} or {others[kind][0]}" if kind in others and takes(name, others[kind][1]) else kind
        for name, kind in parameters(of).items()
    }


# ---- accelerate ------------------------------------------------------------------------------------------------------

# Sections whose keys may or may not have this prefix (accelerate, commands/launch.py, _validate_launch_command).
PREFIXES = {"fsdp_config": "fsdp_", "fp8_config": "fp8_", "dynamo_config": "dynamo_"}


def accelerate_keys() -> Table:
    hints = typing.get_type_hints(ClusterConfig)
    table: Table = {name: KINDS.get(hint) or kind_of(hint) for name, hint in hints.items()}
    flags = {action.dest: action for action in launch_command_parser()._actions}
    table["mixed_precision"] = any_case(PrecisionType.list())
    table |= {
        "fp16": "bool",
        "dynamo_backend": any_case(DynamoBackend.list()),
    }  # keys of old files: BaseConfig.process_config
    for section, prefix in PREFIXES.items():
        kinds = {name: flag_kind(flag) for name, flag in flags.items() if name.startswith(prefix)}
        table[section] = kinds | {name.removeprefix(prefix): kind for name, kind in kinds.items()}
    table["dynamo_config"] |= dict.fromkeys(("backend", "dynamo_backend"), any_case(DynamoBackend.list()))
    for section, prefix in (("parallelism_config", "parallelism_config_"), ("megatron_lm_config", "megatron_lm_")):
        table[section] = {name: flag_kind(flag) for name, flag in flags.items() if name.startswith(prefix)}
    start, end = (list(flags).index(name) for name in ("deepspeed_config_file", "deepspeed_moe_layer_cls_names"))
    table["deepspeed_config"] = {name: flag_kind(flags[name]) for name in list(flags)[start : end + 1]}
    return table


def flag_kind(flag: Any) -> str:
    """Return the type of an `accelerate launch` option as the YAML may contain it: nothing converts or checks it."""
    if flag.nargs == 0 or flag.type is bool or getattr(flag.type, "__name__", "") == "str_to_bool":
        return "bool"
    if flag.choices and flag.dest.startswith("fp8_"):  # checked by the recipes in accelerate/utils/dataclasses.py
        return any_case(flag.choices)
    if flag.type in (int, float):
        return "number"
    return "scalar" if flag.type is str else "list or text"  # a str may be true, 2 or a size


# ---- the file --------------------------------------------------------------------------------------------------------


def made() -> str:
    """Return the file's text."""
    old = {precision_config.BFLOAT16_OLD: precision_config.BFLOAT16}
    document = {
        "versions": {name: version(name).partition("+")[0] for name in ("accelerate", "deepspeed", "torch")},
        "accelerate": accelerate_keys(),
        "accelerate_deprecated": {"fp16": "mixed_precision", "dynamo_backend": "dynamo_config.dynamo_backend"},
        "deepspeed": deepspeed_keys(),
        "deepspeed_deprecated": {**deprecated_keys(DeepSpeedZeroConfig, "zero_optimization"), **old},
        "deepspeed_removed": removed_keys(),
        "optimizer": optimizers(),
        "scheduler": schedulers(),
    }
    rows = [f"  {json.dumps(name)}: {{\n{_rows(table)}\n  }}" for name, table in document.items()]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _rows(table: Mapping[str, Any]) -> str:
    return ",\n".join(f"    {json.dumps(key)}: {json.dumps(table[key], sort_keys=True)}" for key in sorted(table))


if __name__ == "__main__":
    text = made()
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if FILE.read_text() == text else "engine_tables.json is out of date: python tools/engine_tables.py")
    FILE.write_text(text)
