"""Enable NCCL's flight recorder in ranks that launch.sh did not start: if a collective hangs, each rank dumps the most
recent ones.

launch.sh sets the same variables in jobs with GPUs. Variables that are already set are left unchanged. The names are
those that torch 2.9 to 2.13 reads when it creates a process group. torchtitan sets them at the same point
(distributed/utils.py, init_distributed).
"""

from collections.abc import MutableMapping
from pathlib import Path


def enable_flight_recorder(environ: MutableMapping[str, str], run_dir: Path | None) -> None:
    """Set the variables that `environ` does not set yet. Dumps go to logs/collectives_RANK in the run folder."""
    defaults = {
        "TORCH_FR_BUFFER_SIZE": "20000",  # number of collectives
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3",  # torch's default: the process exits after the dump
    }
    if run_dir is not None:
        logs = run_dir.absolute() / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        defaults["TORCH_FR_DUMP_TEMP_FILE"] = f"{logs}/collectives_"
    environ.update({name: value for name, value in defaults.items() if not environ.get(name)})
