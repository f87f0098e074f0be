"""`backend.infra` and the site's facts: JC4701, JC4702, JC4712, JC4717, JC4719, JC4721."""

import re
from collections.abc import Iterator

from ....compiler.api import Diagnostic, LaunchPlan, Severity, nearest
from .. import schema, task
from ..config import SITES, requested_cloud
from ..options import SkypilotOptions, infra_cloud

_NAME = r"[a-zA-Z]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?"


def requested_infras(options: SkypilotOptions) -> list[tuple[str, str]]:
    """Return (key, infra) for each infra that is set."""
    infras = [("backend.infra", options.infra), *((key, entry.infra) for key, entry in options.alternatives)]
    return [(key, infra) for key, infra in infras if infra is not None]


def is_valid_infra(infra: str) -> bool:
    """Return whether SkyPilot can parse the infra, even if it does not exist."""
    return not schema.find_schema_errors({"resources": {"infra": infra}})


def check_invalid_infra(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4701: an infra that SkyPilot cannot parse."""
    for key, text in requested_infras(options):
        if not is_valid_infra(text):
            forms = "cloud[/region[/zone]], k8s[/context], slurm[/cluster[/partition]] or ssh[/pool]"
            clouds = schema.load_schemas()["resources"]["properties"]["cloud"]["case_insensitive_enum"]
            near = nearest(text.partition("/")[0].lower(), ["k8s", *clouds])
            because, hint = f"the value must be {forms}", f"{key}={near[0] if near else 'aws'}"
            yield Diagnostic("JC4701", f"{text!r} is not a valid infra", because, hint, key=key)


def check_unknown_cluster(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4702: a context, cluster or pool that the site does not have."""
    if options.clusters is None:
        return
    for key, text in requested_infras(options):
        cloud, _, name = text.partition("/")
        if infra_cloud(text) != "kubernetes":  # whose contexts may contain a slash
            name = name.partition("/")[0]
        if name and infra_cloud(text) in SITES and name not in (*options.clusters, "*") and is_valid_infra(text):
            near = nearest(name, options.clusters) or options.clusters
            hint = f"{key}={cloud}/{near[0]}" if near else f"{key}={cloud}"
            names = ", ".join(options.clusters) or "none"
            because = f"backend.clusters lists {names}; SkyPilot checks these values only at launch"
            yield Diagnostic("JC4702", f"cluster {name} does not exist at this site", because, hint, key=key)


def check_invalid_cluster_name(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4717: an invalid cluster name for `sky launch`."""
    if options.cluster is not None and not re.fullmatch(_NAME, options.cluster):
        because = "a name must start with a letter, contain only letters, digits and -_. and end with a letter or digit"
        hint = f"backend.cluster={task.to_cluster_name(options.cluster)}"
        yield Diagnostic("JC4717", f"{options.cluster!r} is not a cluster name", because, hint, key="backend.cluster")


def check_partition(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4719: a Slurm partition that does not exist, or that differs from queue.name."""
    for key, infra in requested_infras(options):
        name = infra.split("/")[2] if infra_cloud(infra) == "slurm" and infra.count("/") == 2 else ""
        if name and options.partitions and name not in options.partitions:
            near = (nearest(name, options.partitions) or sorted(options.partitions))[0]
            because = f"known partitions: {', '.join(sorted(options.partitions))}; SkyPilot would fail at launch"
            hint = f"{key}={infra.removesuffix(name)}{near}"
            yield Diagnostic("JC4719", f"partition {name} does not exist at this site", because, hint, key=key)
        elif name and key == "backend.infra" and plan.queue.name not in (None, name):
            because = f"{key} sets partition {name}, which overrides queue.name"
            hint = f"queue.name={name}, or {key}={infra.removesuffix(f'/{name}')}"
            yield Diagnostic("JC4719", f"queue.name={plan.queue.name} has no effect", because, hint, key="queue.name")


def check_ignored_queue_options(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4712: queue options that are ignored, because the infrastructure has no scheduler that supports them."""
    queue, cloud = plan.queue, requested_cloud(plan, options)
    ignored: dict[str, object] = {}
    if cloud != "slurm":
        names = ("account", "qos", "reservation", "nodelist", "exclude", "exclusive", "after")
        ignored = {**{f"queue.{name}": getattr(queue, name) for name in names}, "hosts": plan.resources.hosts}
    has_no_cluster = any("/" not in infra for _, infra in requested_infras(options))
    if cloud not in ("slurm", "kubernetes") or (cloud == "slurm" and has_no_cluster):
        ignored["queue.name"] = queue.name
    for key in filter(ignored.get, ignored):
        infra = options.infra or cloud or "any"
        because = f"infra {infra} does not support this key; the job computes the same results without it"
        undo = f"nodes={plan.topology.nodes} instead of hosts" if key == "hosts" else f"remove {key}"
        hint = f"{undo}, or backend.infra=slurm/CLUSTER"
        yield Diagnostic("JC4712", f"{key} is ignored", because, hint, key=key, severity=Severity.NOTE)


def check_unlisted_site_resources(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4721: site resources that are not checked, because no profile lists them. This is a note."""
    if facts := _unset_profile_keys(plan, options):
        title = f"not checked: {_join_with_and([*facts.values()])}"
        because = "SkyPilot checks these values only at launch"
        if "backend.qos" in facts:
            because += ", and a job with an unknown QOS stays queued forever"
        profile = f"set {_join_with_and([*facts])} in the cluster profile (cluster=NAME)"
        hint = f"{profile}; ./jobctl preflight --queue-only asks SkyPilot"
        yield Diagnostic("JC4721", title, because, hint, key="backend.infra", severity=Severity.NOTE)


def _unset_profile_keys(plan: LaunchPlan, options: SkypilotOptions) -> dict[str, str]:
    """Map each unset profile key to the requested resource that it would check."""
    sites = [infra.split("/") for _, infra in requested_infras(options) if infra_cloud(infra) in SITES]
    names = [parts[1] for parts in sites if len(parts) > 1 and parts[1] != "*"]
    facts = {}
    if names and options.clusters is None:
        facts["backend.clusters"] = names[0]
    if options.cloud == "slurm" and plan.queue.qos and options.qos is None:
        facts["backend.qos"] = f"QOS {plan.queue.qos}"
    partition = plan.queue.name or next((parts[2] for parts in sites if len(parts) > 2), "")
    if options.cloud == "slurm" and partition and not options.partitions:
        facts["site.partitions"] = f"partition {partition}"
    if sites and not options.partitions:  # partitions may have their own limits
        nodes, gpus = plan.topology.nodes, plan.topology.gpus
        if nodes > 1 and options.most_nodes is None:
            facts["site.nodes"] = f"{nodes} nodes"
        if gpus and options.most_gpus is None:
            facts["site.gpus"] = f"{gpus} {'GPU' if gpus == 1 else 'GPUs'} on a node"
    return facts


def _join_with_and(items: list[str]) -> str:
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last
