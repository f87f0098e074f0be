"""Ranks started by a user's own srun or mpirun record their collectives like those started by launch.sh."""

from __future__ import annotations

import re
from pathlib import Path

from jobc.trainer.dist.process_group import enable_flight_recorder

LAUNCH_SH = Path(__file__).parents[3] / "compiler" / "templates" / "launch.sh.j2"


def test_ranks_without_launch_sh_have_what_it_sets(tmp_path: Path) -> None:
    in_launch_sh = dict(
        re.findall(r"^export (TORCH_(?:FR|NCCL)_\w+)=\$\{\1:-(.*?)\}", LAUNCH_SH.read_text(), re.MULTILINE)
    )
    assert len(in_launch_sh) == 4
    environ: dict[str, str] = {}
    enable_flight_recorder(environ, tmp_path / "run")
    assert environ == {name: value.replace("$JOBC_RUN_DIR", f"{tmp_path}/run") for name, value in in_launch_sh.items()}
    assert (tmp_path / "run" / "logs").is_dir()


def test_what_is_set_stays() -> None:
    environ = {"TORCH_FR_BUFFER_SIZE": "7", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0"}
    told = dict(environ)
    enable_flight_recorder(environ, None)
    assert {name: environ[name] for name in told} == told
    assert "TORCH_FR_DUMP_TEMP_FILE" not in environ
