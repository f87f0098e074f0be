"""JC4711: a setting that SkyPilot's schema accepts but the infrastructure lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .....compiler.diagnostics.diagnostic import Diagnostic
from ...config import PODS
from ...finished import FinishedTask
from .._undo import undo


@dataclass(frozen=True)
class Lack:
    """A feature that some clouds lack. field: field of resources; asks: whether a value needs it; undo: hint."""

    clouds: tuple[str, ...]
    field: str
    asks: Callable[[Any], bool]
    what: str
    because: str
    undo: str


LATE = "SkyPilot rejects it at launch"
LACKS = (
    Lack(("slurm", "ssh"), "use_spot", bool, "has no spot machines", LATE, "backend.use_spot=false"),
    Lack(
        ("slurm",),
        "ports",
        bool,
        "cannot open ports",
        "SkyPilot cannot open ports on Slurm nodes",
        "backend.ports=[]",
    ),
    Lack(("slurm", *PODS), "local_disk", bool, "has no local_disk", "only cloud machines have one", ""),
    Lack(
        PODS, "disk_tier", lambda tier: tier not in (None, "best"), "has no disk_tier", LATE, "backend.disk_tier=null"
    ),
    Lack(
        ("slurm", *PODS),
        "autostop",
        lambda said: isinstance(said, Mapping) and not said.get("down"),
        "cannot stop machines",
        "SkyPilot can delete them when they are idle, but not stop them",
        "backend.down=true, or backend.autostop=null",
    ),
)


def check(task: FinishedTask) -> Iterator[Diagnostic]:
    for machine in task.machines():
        settings = machine.asked
        for lack in LACKS:
            # with Pyxis, SkyPilot can stop the containers
            is_pyxis = lack.field == "autostop" and machine.cloud == "slurm" and settings.get("image_id")
            if machine.cloud in lack.clouds and lack.asks(settings.get(lack.field)) and not is_pyxis:
                key = task.key(machine.place(lack.field))
                title, hint = f"{machine.cloud} {lack.what}", undo(key, lack.undo)
                yield Diagnostic("JC4711", title, lack.because, hint, key=key)
