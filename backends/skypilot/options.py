"""The types of backend skypilot's options. Their meanings and defaults are in conf/backend/skypilot.yaml."""

from collections.abc import Mapping
from typing import Any, Literal

from ...compiler.spec.value_types import Bytes, Count, CountOrZero, Duration, EngineLine, Path
from ...runtime.system.frozen_dataclass import dataclass


@dataclass(frozen=True)
class AlternativeMachine:
    """One entry of `any_of` or `ordered`: an acceptable machine. A null field inherits the job's own value."""

    infra: str | None
    gpu_type: str | None
    use_spot: bool | None
    image_id: str | None


@dataclass(frozen=True)
class SkypilotOptions:
    """Options of backend skypilot, under SkyPilot's own names where it has them."""

    infra: str | None
    any_of: tuple[AlternativeMachine, ...]
    ordered: tuple[AlternativeMachine, ...]
    gpu_types: tuple[str, ...]
    use_spot: bool
    instance_type: str | None
    image_id: str | None
    network_tier: Literal["standard", "best"] | None
    disk_size: Bytes | None
    disk_tier: Literal["low", "medium", "high", "ultra", "best"] | None
    ports: tuple[str, ...]
    cluster: str | None
    autostop: Duration | None
    down: bool
    managed: bool
    strategy: Literal["FAILOVER", "EAGER_NEXT_REGION"] | None
    records: Path
    start_timeout: Duration
    usage_collection: bool
    setup: tuple[EngineLine, ...]
    file_mounts: Mapping[str, Any]
    config: Mapping[str, Any]
    clusters: tuple[str, ...] | None
    partitions: tuple[str, ...]
    qos: tuple[str, ...] | None
    most_nodes: Count | None
    most_gpus: CountOrZero | None
    pyxis: bool | None
    tracks_memory: bool
    extra: Mapping[str, Any]

    @property
    def alternatives(self) -> list[tuple[str, AlternativeMachine]]:
        """Return the entries of any_of and ordered, each with its key."""
        entries = [("backend.any_of", entry) for entry in self.any_of]
        return entries + [("backend.ordered", entry) for entry in self.ordered]

    @property
    def cloud(self) -> str:
        """Return the cloud that all alternatives share, as SkyPilot spells it, or "" if they differ or none is set."""
        clouds = {infra_cloud(entry.infra or self.infra) for _, entry in self.alternatives}
        clouds = clouds or {infra_cloud(self.infra)}
        return clouds.pop() if len(clouds) == 1 else ""


def infra_cloud(infra: str | None) -> str:
    """Return the cloud in an infra (its first word) as SkyPilot spells it, or "" for any cloud."""
    word = (infra or "").partition("/")[0].lower()
    return {"k8s": "kubernetes", "*": ""}.get(word, word)
