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

import json
import os
import sys
import typing
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("DS_ACCELERATOR", "cpu")

from accelerate.commands.config.config_args import ClusterConfig
from accelerate.commands.launch import launch_command_parser
from accelerate.utils import DynamoBackend, PrecisionType
from deepspeed.comm.config import CommsLoggerConfig
from deepspeed.compile.config import CompileConfig
from deepspeed.inference.config import WeightQuantConfig
from deepspeed.monitor.config import DeepSpeedMonitorConfig
from deepspeed.runtime import config, constants, precision_config
from deepspeed.runtime.model_checkpointing import constants as checkpoint_constants
from deepspeed.runtime.tensor_parallel.config import TPTrainingConfig
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
from deepspeed.utils.config import DeepSpeedThroughputTimerConfig
from engine_types import KINDS, Table, any_case, deprecated_keys, kind_of, model_keys  # beside this file
from optimizer_tables import optimizers, schedulers, torch_optimizers

FILE = Path(__file__).parents[1] / "compiler" / "launchers" / "accelerate" / "engine_tables.json"
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
