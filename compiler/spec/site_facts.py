"""Facts about the site's machines (section `site`, set by a profile in cluster/).

What a site does not say is unknown, and refuses nothing. A job with several partitions, `queue.name=a,b`, must fit one.
"""

from __future__ import annotations

from typing import Any

from .job_spec import JobSpec


def partitions(spec: JobSpec) -> tuple[str, ...]:
    """The partitions that the job may run in, as far as it or the site says."""
    names = spec.queue.name or spec.site.partition
    return tuple(names.split(",")) if names else ()


def place(spec: JobSpec) -> str:
    """These, for people."""
    return f"partition {','.join(partitions(spec))}" if partitions(spec) else "this site"


def fact(spec: JobSpec, name: str, partition: str | None) -> Any:
    """Return a fact about a partition, or else about all machines; None if unknown. name: a field of PartitionSpec"""
    partition_facts = spec.site.partitions.get(partition or "")
    value = getattr(partition_facts, name) if partition_facts is not None else None
    return getattr(spec.site, name) if value is None else value


def most(spec: JobSpec, name: str) -> Any:
    """The largest value of a fact over the partitions the job may run in; None when it is unknown for one of them."""
    values = [fact(spec, name, partition) for partition in partitions(spec) or (None,)]
    return None if None in values else max(values)


def share_of_cores(spec: JobSpec) -> int | None:
    """Return the cores of a node in proportion to its GPUs that the job uses, the same number for each process.

    None without GPUs, or if the site does not give both numbers of one kind of machine.
    """
    shares = []
    for partition in partitions(spec) or (None,):
        facts = spec.site.partitions.get(partition or "")
        machine = spec.site if facts is None or (facts.cpus is None and facts.gpus is None) else facts
        if not spec.gpus or machine.cpus is None or not machine.gpus:
            return None
        shares.append(machine.cpus * min(spec.gpus, machine.gpus) // machine.gpus)
    share, processes = min(shares), spec.procs or spec.gpus
    return share - share % processes or share or None
