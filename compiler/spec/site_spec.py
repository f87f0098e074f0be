"""Facts for checks and estimates: about the machines of a site, and about a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .value_types import (
    Bytes,
    Count,
    CountOrZero,
    Duration,
    Path,
    Price,
    Quantity,
    Seconds,
    TimeLimit,
)


@dataclass(frozen=True)
class PartitionSpec:
    """Facts about one partition or queue; null = as for the site, or unknown.

    nodes:     machines in it
    gpus:      GPUs of a machine
    gpu_types: kinds of GPU, as `gpu_type` names them
    cpus, mem: cores and memory of the largest machine
    time:      longest time limit
    """

    nodes: Count | None
    gpus: CountOrZero | None
    gpu_types: tuple[str, ...] | None
    cpus: Count | None
    mem: Bytes | None
    time: TimeLimit | None


@dataclass(frozen=True)
class SiteSpec:
    """Facts about the machines, for checks before anything starts; null = unknown, and nothing is refused for it.

    nodes, gpus, gpu_types, cpus, mem, time: as of a partition, where it does not say
    partitions: by name; empty = unknown
    partition:  the one that a job without `queue.name` gets
    requires:   keys that a job must set here, such as queue.account
    torch:      version of torch on the nodes
    """

    nodes: Count | None
    gpus: CountOrZero | None
    gpu_types: tuple[str, ...] | None
    cpus: Count | None
    mem: Bytes | None
    time: TimeLimit | None
    partitions: Mapping[str, PartitionSpec]
    partition: str | None
    requires: tuple[str, ...]
    torch: str | None


@dataclass(frozen=True)
class EstimateSpec:
    """Inputs of `jobc plan` in addition to the job; no emitted file depends on them. null = unknown.

    samples:           training samples of an epoch
    parameters:        numbers that a model of your own learns
    largest_unit:      of these, in the largest module that is gathered at once
    tokens_per_sample: null = as the built-in model reads them
    sample_size:       bytes of a sample of your own data, as the data set gives it
    step_s:            seconds of one optimizer step at the first size; others by their samples of a rank
    run:               run folder whose metrics say how long a step takes
    gpu_mem:           memory of one GPU
    disk:              bytes that are free where runs lie
    write_rate:        bytes that a checkpoint writes in one second
    prices:            of one GPU hour, by gpu_type; `any` for others
    mtbf:              mean time between two failures of one node
    restart:           from a failure to the next new step
    """

    samples: Count | None
    parameters: Quantity | None
    largest_unit: Count | None
    tokens_per_sample: Count | None
    sample_size: Bytes | None
    step_s: Seconds | None
    run: Path | None
    gpu_mem: Bytes | None
    disk: Bytes | None
    write_rate: Bytes | None
    prices: Mapping[str, Price]
    mtbf: TimeLimit | None
    restart: Duration | None
