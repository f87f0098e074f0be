"""`python -m jobc_trainer`: reads the environment and train.json, trains, and returns an exit code."""

import faulthandler
import os
import signal
from functools import partial

from .build.garbage_collection import pause_garbage_collection
from .config.schema import TrainConfig
from .config.train_json import load_train_json
from .dist import env as environment
from .lifecycle.errors import BrokenInput, StoppedBeforeTraining
from .lifecycle.exit_rank import exit_with_error, exit_without_teardown
from .lifecycle.requests import StopSignals
from .loop import attempt_counter

YAML = "accelerate.yaml"


def main() -> int:
    """Train, and return the exit code (runtime/exit_codes.py). `kill -QUIT PID` prints this rank's stacks."""
    faulthandler.register(signal.SIGQUIT, file=2)  # faulthandler works without the GIL
    signals = StopSignals()
    try:
        env = environment.parse_environment(os.environ, ("JOBC_RUN_DIR", "JOBC_TRAIN_JSON"))
        assert env.train_json is not None and env.run_dir is not None
        config = load_train_json(env.train_json)
        require_same_world_size(config, env)
        require_same_accelerate_settings(config, env)
        if env.rank == 0:
            attempt_counter.record_start_or_reject_loop(env.run_dir, config.loop.max_fruitless)
        if signals.is_stop_requested():
            raise StoppedBeforeTraining("stopped before the rendezvous was complete")
        code = train(config, env, signals)
        if env.rank == 0:
            attempt_counter.record_normal_end(env.run_dir)
        return code
    except StoppedBeforeTraining as error:
        if env.rank == 0 and env.run_dir is not None:
            attempt_counter.record_normal_end(env.run_dir)
        exit_with_error(error)
    except BaseException as error:
        exit_with_error(error)


def require_same_world_size(config: TrainConfig, env: environment.RankEnvironment) -> None:
    """Raise BrokenInput if WORLD_SIZE differs from train.json, whose batch sizes hold for that world size only."""
    if config.world_size != env.world_size:
        by = f"accelerate, by {YAML}," if env.accelerate_mixed_precision is not None else "the launcher"
        raise BrokenInput(
            f"{env.train_json} is for world_size {config.world_size}, but {by} set WORLD_SIZE={env.world_size}",
            hint="compile again with the number of nodes and processes that you start",
        )


def require_same_accelerate_settings(config: TrainConfig, env: environment.RankEnvironment) -> None:
    """Raise BrokenInput if accelerate's YAML contradicts train.json, for example after a manual edit."""
    if env.accelerate_mixed_precision is None:
        return
    precision = "no" if config.loop.precision == "fp32" else config.loop.precision
    configured = env.accelerate_mixed_precision
    is_zero = config.parallel.kind == "deepspeed"  # its precision is in deepspeed.json (zero.py)
    wrong = [
        *([f"mixed_precision: {configured}, not {precision}"] if configured != precision and not is_zero else []),
        *(["distributed_type: FSDP"] if env.accelerate_use_fsdp else []),
        *(["distributed_type: DEEPSPEED"] if env.accelerate_use_deepspeed and not is_zero else []),
        *(["distributed_type: not DEEPSPEED"] if is_zero and not env.accelerate_use_deepspeed else []),
        *(["dynamo_config"] if (env.accelerate_dynamo_backend or "no").lower() != "no" else []),
    ]
    if wrong:
        hint = "the trainer uses train.json: compile again, or restore the YAML"
        raise BrokenInput(f"{YAML} contradicts {env.train_json}", wrong, hint=hint)


def train(config: TrainConfig, env: environment.RankEnvironment, signals: StopSignals) -> int:
    """Join the process group, build everything and run the training loop; return the exit code."""
    if config.loop.deterministic:
        # must be set before CUDA starts; PyTorch 2.13 documentation, torch.use_deterministic_algorithms
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    with pause_garbage_collection():  # import here, so that the errors above appear before torch is loaded
        from .build.build import build
        from .dist.compare_ranks import compare_ranks_and_watch
        from .dist.process_group import join_process_group
        from .loop.loop import run_training

    even_alone, timeout_s = config.parallel.kind != "ddp", config.process_group.init_timeout_s
    with join_process_group(env, timeout_s, signals.is_stop_requested, even_alone) as group:
        assert env.run_dir is not None
        # any rank may record this because rank 0, which counts the starts, may see nothing but a lost peer
        signals.ends_with = partial(attempt_counter.record_normal_end, env.run_dir)
        if signals.is_stop_requested():
            raise StoppedBeforeTraining("stopped before the first step")
        with compare_ranks_and_watch(group, config) as watch:
            training = build(config, env, group)
            signals.ends_with = None
            return run_training(training, signals, watch)


if __name__ == "__main__":
    exit_without_teardown(main())
