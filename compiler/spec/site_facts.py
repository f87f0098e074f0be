"""Look up facts about the site's machines (section `site`, set by a profile in cluster/).

Facts that a site omits are unknown and not checked. A job with several partitions (`queue.name=a,b`) must fit one of
them.
"""

from typing import Any

from .job_spec import JobSpec


def possible_partitions(spec: JobSpec) -> tuple[str, ...]:
    """Return the partitions that the job may run in, if the job or the site defines any."""
    names = spec.queue.name or spec.site.partition
    return tuple(names.split(",")) if names else ()


def describe_partitions(spec: JobSpec) -> str:
    return f"partition {','.join(possible_partitions(spec))}" if possible_partitions(spec) else "this site"


def site_fact(spec: JobSpec, name: str, partition: str | None) -> Any:
    """Return a fact (a field of PartitionSpec) about a partition, or else about the site, or None if unknown."""
    partition_facts = spec.site.partitions.get(partition or "")
    value = getattr(partition_facts, name) if partition_facts is not None else None
    return getattr(spec.site, name) if value is None else value


def site_limit(spec: JobSpec, name: str) -> Any:
    """Return a fact's largest value over the job's possible partitions, or None if it is unknown for any of them."""
    values = [site_fact(spec, name, partition) for partition in possible_partitions(spec) or (None,)]
    return None if None in values else max(values)


def proportional_cores(spec: JobSpec) -> int | None:
    """Return the job's share of a node's cores, proportional to its GPUs, rounded down to a multiple of its processes.

    Return None without GPUs, or if the site does not define the cores and GPUs of a single type of machine.
    """
    shares = []
    for partition in possible_partitions(spec) or (None,):
        facts = spec.site.partitions.get(partition or "")
        machine = spec.site if facts is None or (facts.cpus is None and facts.gpus is None) else facts
        if not spec.gpus or machine.cpus is None or not machine.gpus:
            return None
        shares.append(machine.cpus * min(spec.gpus, machine.gpus) // machine.gpus)
    share, processes = min(shares), spec.procs or spec.gpus
    return share - share % processes or share or None
