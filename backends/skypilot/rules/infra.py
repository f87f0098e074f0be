"""`backend.infra` and the site's facts: JC4701, JC4702, JC4712, JC4717, JC4719, JC4721."""

import re
from collections.abc import Iterator

from ....compiler.diagnostics.diagnostic import Diagnostic, Severity, nearest
from ....compiler.plan.launch_plan import LaunchPlan
from .. import schema, task
from ..config import PODS, SITES, requested_cloud
from ..options import SkypilotOptions, infra_cloud

_NAME = r"[a-zA-Z]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?"


def requested_infras(options: SkypilotOptions) -> Iterator[tuple[str, str]]:
    """Yield (key, infra) for each infra that is set."""
    if options.infra is not None:
        yield "backend.infra", options.infra
    for name in ("any_of", "ordered"):
        yield from (
            (f"backend.{name}", alternative.infra)
            for alternative in getattr(options, name)
            if alternative.infra is not None
        )


def is_valid_infra(infra: str) -> bool:
    """Return whether SkyPilot can parse the infra, even if it does not exist."""
    return not schema.find_schema_errors({"resources": {"infra": infra}})


def is_site(infra: str) -> bool:
    return _first_word(infra) in ("k8s", *SITES)


def has_pods(infra: str) -> bool:
    return _first_word(infra) in ("k8s", *PODS)


def _first_word(infra: str) -> str:
    return infra.partition("/")[0].lower()


def check_invalid_infra(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4701: an infra that SkyPilot cannot parse."""
    for key, text in requested_infras(options):
        if not is_valid_infra(text):
            because = (
                "the value must be cloud[/region[/zone]], k8s[/context], slurm[/cluster[/partition]] or ssh[/pool]"
            )
            clouds = schema.load_schemas()["resources"]["properties"]["cloud"]["case_insensitive_enum"]
            near = nearest(text.partition("/")[0].lower(), ["k8s", *clouds])
            title = f"{text!r} is not a valid infra"
            yield Diagnostic("JC4701", title, because, f"{key}={near[0] if near else 'aws'}", key=key)


def check_unknown_cluster(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4702: a context, cluster or pool that the site does not have."""
    for key, text in requested_infras(options):
        cloud, _, cluster_path = text.partition("/")
        name = cluster_path if cloud.lower() in ("k8s", "kubernetes") else cluster_path.partition("/")[0]
        if not name or options.clusters is None or not is_site(cloud) or name in (*options.clusters, "*"):
            continue
        if is_valid_infra(text):
            near = nearest(name, options.clusters) or [*options.clusters]
            hint = f"{key}={cloud}/{near[0]}" if near else f"{key}={cloud}"
            because = (
                f"backend.clusters lists {', '.join(options.clusters) or 'none'}; SkyPilot checks these "
                "values only at launch"
            )
            yield Diagnostic("JC4702", f"cluster {name} does not exist at this site", because, hint, key=key)


def check_invalid_cluster_name(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4717: an invalid cluster name for `sky launch`."""
    if options.cluster is not None and not re.fullmatch(_NAME, options.cluster):
        because = (
            "a cluster name must start with a letter, contain only letters, digits and -_. and end with "
            "a letter or digit"
        )
        hint = f"backend.cluster={task.to_cluster_name(options.cluster)}"
        yield Diagnostic("JC4717", f"{options.cluster!r} is not a cluster name", because, hint, key="backend.cluster")


def check_partition(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4719: a Slurm partition that does not exist, or that differs from queue.name."""
    for key, infra in requested_infras(options):
        _, _, name = infra.split("/", 2) if infra_cloud(infra) == "slurm" and infra.count("/") == 2 else ("", "", "")
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
    wishes = {
        f"queue.{n}": getattr(plan.queue, n)
        for n in ("account", "qos", "reservation", "nodelist", "exclude", "exclusive", "after")
    }
    wishes["hosts"] = plan.resources.hosts
    is_slurm = options.cloud == "slurm"
    if requested_cloud(plan, options) not in ("slurm", "kubernetes") or (
        is_slurm and any("/" not in i for _, i in requested_infras(options))
    ):
        wishes["queue.name"] = plan.queue.name
    for key, value in wishes.items():
        if value and (not is_slurm or key == "queue.name"):
            infra = options.infra or requested_cloud(plan, options) or "any"
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
        hint = (
            f"set {_join_with_and([*facts])} in the cluster profile (cluster=NAME); ./jobctl preflight --queue-only"
            f" asks SkyPilot"
        )
        yield Diagnostic("JC4721", title, because, hint, key="backend.infra", severity=Severity.NOTE)


def _unset_profile_keys(plan: LaunchPlan, options: SkypilotOptions) -> dict[str, str]:
    """Map each unset profile key to the requested resource that it would check."""
    sites = [infra.split("/") for _, infra in requested_infras(options) if is_site(infra)]
    names = [parts[1] for parts in sites if len(parts) > 1 and parts[1] != "*"]
    facts = {}
    if names and options.clusters is None:
        facts["backend.clusters"] = names[0]
    if options.cloud == "slurm" and plan.queue.qos and options.qos is None:
        facts["backend.qos"] = f"QOS {plan.queue.qos}"
    partition = plan.queue.name or next(
        (parts[2] for parts in sites if infra_cloud(parts[0]) == "slurm" and len(parts) > 2), ""
    )
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
