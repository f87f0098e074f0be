"""`python -m jobc_trainer`: environment and train.json in, trained weights and an exit code out."""

import os
import sys
from pathlib import Path

from . import env as environment
from .config import TrainConfig, load
from .errors import BrokenInput, StoppedEarly
from .leave import leave
from .signals import StopSignals

NEEDED = ("JOBC_RUN_DIR", "JOBC_TRAIN_JSON")


def main() -> int:
    """The exit code (rt/exit_codes.py)."""
    signals = StopSignals()
    try:
        env = environment.read(os.environ, NEEDED)
        assert env.train_json is not None
        config = load(env.train_json)
        refuse_other_world(config, env.world_size, env.train_json)
        if signals.received is not None:
            raise StoppedEarly("asked to stop before the ranks met")
        return train(config, env, signals)
    except BaseException as error:
        leave(error)


def refuse_other_world(config: TrainConfig, world_size: int, path: Path) -> None:
    """The batch was divided for one world size; another one would train something else."""
    if config.world_size != world_size:
        raise BrokenInput(
            f"{path} is for world_size {config.world_size}, but the launcher set WORLD_SIZE={world_size}",
            hint="compile again with the nodes and processes that are started",
        )


def train(config: TrainConfig, env: environment.Env, signals: StopSignals) -> int:
    """Join, build, run, leave."""
    # imported here, so that mistakes above are told before torch has been loaded
    from .distributed import join
    from .loop import run
    from .training import build

    with join(env, config.process_group.init_timeout_s, lambda: signals.received is not None) as group:
        return run(build(config, env, group), signals)


if __name__ == "__main__":
    sys.exit(main())
