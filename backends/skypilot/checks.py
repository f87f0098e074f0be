"""What SkyPilot takes though it is wrong, or refuses late; said now: JC4701 to JC4721.

Keys of the job are checked here, GPUs in checks_gpus.py; what may also come from `backend.extra` in checks_finished.py,
on the finished task.
Each was tried with SkyPilot 0.14.1: `sky.Task.from_yaml`, `validate()`, `sky launch --dryrun` and a real launch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from posixpath import normpath

from ...compiler.diagnostics import Diagnostic, Severity, has_errors, nearest
from ...compiler.plan import LaunchPlan, Mount
from .._shared.kubernetes_forms import IMAGE
from . import checks_finished, checks_gpus, protected, schema, task
from .config import PODS, SITES, cloud
from .finished import Finished, mapping
from .options import SkypilotOptions, cloud_of

LAUNCH_NAME = r"[a-zA-Z]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?"


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    finished = Finished.of(plan, options)
    found = [*own(plan, options), *protected.check(plan, options)]
    found += checks_finished.check(finished)
    yield from found
    if not has_errors(found):
        yield from checks_finished.by_schema(finished)


def own(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """Key by key."""
    yield from infra(options)
    yield from partition(plan, options)
    yield from unchecked(plan, options)
    yield from checks_gpus.check(plan, options)
    yield from storage(plan, options)
    for i, mount in enumerate(plan.mounts):
        yield from mounted(i, mount, options)
    yield from targets(plan, options)
    yield from queue(plan, options)
    yield from image(plan, options)
    yield from name(options)


def infra(options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4701 a name that is none; JC4702 one that the site has not."""
    for key, text in infras(options):
        if schema.problems({"resources": {"infra": text}}):
            because = "it is cloud[/region[/zone]], k8s[/context], slurm[/cluster[/partition]] or ssh[/pool]"
            clouds = schema.schemas()["resources"]["properties"]["cloud"]["case_insensitive_enum"]
            near = nearest(text.partition("/")[0].lower(), ["k8s", *clouds])
            yield Diagnostic("JC4701", f"no infra {text!r}", because, f"{key}={near[0] if near else 'aws'}", key=key)
            continue
        cloud, _, rest = text.partition("/")
        name = rest if cloud.lower() in ("k8s", "kubernetes") else rest.partition("/")[0]
        if name and options.clusters is not None and _is_site(cloud) and name not in (*options.clusters, "*"):
            near = nearest(name, options.clusters) or [*options.clusters]
            hint = f"{key}={cloud}/{near[0]}" if near else f"{key}={cloud}"
            because = (
                f"backend.clusters has {', '.join(options.clusters) or 'none'}; SkyPilot finds out when it launches"
            )
            yield Diagnostic("JC4702", f"no cluster {name} at this site", because, hint, key=key)


def partition(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4719: a partition of Slurm that is not there, or another one than queue.name says."""
    for key, infra in infras(options):
        _, _, name = infra.split("/", 2) if cloud_of(infra) == "slurm" and infra.count("/") == 2 else ("", "", "")
        if name and options.partitions and name not in options.partitions:
            near = (nearest(name, options.partitions) or sorted(options.partitions))[0]
            because = f"there are {', '.join(sorted(options.partitions))}; SkyPilot finds out when it launches"
            hint = f"{key}={infra.removesuffix(name)}{near}"
            yield Diagnostic("JC4719", f"no partition {name} at this site", because, hint, key=key)
        elif name and key == "backend.infra" and plan.queue.name not in (None, name):
            because = f"{key} names partition {name}, and SkyPilot takes that one"
            hint = f"queue.name={name}, or {key}={infra.removesuffix(f'/{name}')}"
            yield Diagnostic("JC4719", f"queue.name={plan.queue.name} is left out", because, hint, key="queue.name")


def unchecked(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4721, a note: what of a site is taken unseen, for no profile says what there is."""
    said = [infra.split("/") for _, infra in infras(options) if _is_site(infra.partition("/")[0])]
    names = [parts[1] for parts in said if len(parts) > 1 and parts[1] != "*"]
    facts = {}
    if names and options.clusters is None:
        facts["backend.clusters"] = names[0]
    if options.cloud == "slurm" and plan.queue.qos and options.qos is None:
        facts["backend.qos"] = f"QOS {plan.queue.qos}"
    asked = plan.queue.name or next(
        (parts[2] for parts in said if cloud_of(parts[0]) == "slurm" and len(parts) > 2), ""
    )
    if options.cloud == "slurm" and asked and not options.partitions:
        facts["site.partitions"] = f"partition {asked}"
    if said and not options.partitions:  # which may say it each for itself
        nodes, gpus = plan.topology.nodes, plan.topology.gpus
        if nodes > 1 and options.most_nodes is None:
            facts["site.nodes"] = f"{nodes} nodes"
        if gpus and options.most_gpus is None:
            facts["site.gpus"] = f"{gpus} {'GPU' if gpus == 1 else 'GPUs'} on a node"
    if facts:
        title = f"nobody has looked for {_in_words([*facts.values()])}"
        because = "SkyPilot finds out when it launches"
        if "backend.qos" in facts:
            because += ", and a job in a QOS that is none waits for ever"
        hint = f"state {_in_words([*facts])} in the profile, cluster=NAME; ./preflight.sh --queue-only asks SkyPilot"
        yield Diagnostic("JC4721", title, because, hint, key="backend.infra", severity=Severity.NOTE)


def _in_words(items: list[str]) -> str:
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def infras(options: SkypilotOptions) -> Iterator[tuple[str, str]]:
    if options.infra is not None:
        yield "backend.infra", options.infra
    for name in ("any_of", "ordered"):
        yield from ((f"backend.{name}", each.infra) for each in getattr(options, name) if each.infra is not None)


def _is_site(cloud: str) -> bool:
    return cloud.lower() in ("k8s", *SITES)


def _has_pods(infra: str) -> bool:
    return infra.partition("/")[0].lower() in ("k8s", *PODS)


def storage(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4706 a run that the nodes do not share; JC4707 one that ends with its machines."""
    root, shared, own_disks = plan.run.root, plan.run.storage == "shared", plan.run.storage == "node"
    lasting = [m for m in plan.mounts if m.kind in ("volume", "host") and not m.read_only and _below(root, m.target)]
    own = options.cloud == "slurm" and root.startswith("/")  # a file system of the site
    if shared and (plan.topology.nodes > 1 or options.managed) and not (lasting or own):
        if options.cloud == "slurm":
            because = (
                f"storage.root={root} is not absolute, and the home folder that SkyPilot makes goes with its cluster"
            )
            hint = "storage.root=/shared/runs, on storage that all nodes see"
        else:
            because = f"storage.root={root} is on no volume, so each machine would have its own"
            hint = "mounts=[{kind: volume, source: NAME, target: /shared, read_only: false}] storage.root=/shared/runs"
            hint += "" if options.managed else ", or storage.run=node"
        yield Diagnostic("JC4706", "the runs are on no shared storage", because, hint, key="storage.root")
    elif shared and lasting and (plan.topology.nodes > 1 or options.managed) and not own:
        yield from folder_of_nodes(root, lasting)
    if own_disks and options.managed:
        because = "a managed job goes on elsewhere, on new machines, where its checkpoints must be"
        hint = "storage.run=object storage.root=s3://my-bucket/runs, or backend.managed=false"
        yield Diagnostic("JC4707", "a managed job with runs on the nodes' own disks", because, hint, key="storage.run")
    if not shared and plan.lifecycle.max_restarts and plan.topology.nodes > 1:
        because = "the nodes agree on a restart in a run folder that all see"
        yield Diagnostic(
            "JC4707", "no restart in place", because, "lifecycle.max_restarts=0", key="lifecycle.max_restarts"
        )


def folder_of_nodes(root: str, lasting: list[Mount]) -> Iterator[Diagnostic]:
    """JC4706, a note: runs in a folder of the nodes, and whether that is one for all of them nobody asks here."""
    if all(mount.kind == "host" for mount in lasting):
        target, source = lasting[0].target, lasting[0].source
        because = (
            f"it is below {target}, which is {source} of the node that a pod comes to: all must see one file system"
        )
        hint = f"mount that at {source} on every node; or kind: volume, of `sky volumes apply`"
        title = f"storage.root={root} is in a folder of each node"
        yield Diagnostic("JC4706", title, because, hint, key="storage.root", severity=Severity.NOTE)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def mounted(i: int, mount: Mount, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4708"""

    def refuse(title: str, because: str, hint: str) -> Iterator[Diagnostic]:
        yield Diagnostic("JC4708", f"mounts.{i}: {title}", because, hint, key="mounts")

    if not mount.target.startswith("/"):
        yield from refuse(f"target {mount.target}", "a mount is at an absolute path of the nodes", "target: /shared")
    elif mount.kind == "bucket" and not re.fullmatch(r"[a-z0-9]+://\S+", mount.source):
        yield from refuse(f"no bucket {mount.source!r}", "a bucket is a URL", "source: s3://my-bucket")
    elif mount.kind == "host":
        elsewhere = [text for _, text in infras(options) if not _has_pods(text)]
        if elsewhere:
            because = f"only the pods of k8s and ssh see folders of their nodes, and not the machines of {elsewhere[0]}"
            yield from refuse("no host", because, "kind: volume, of `sky volumes apply`; or backend.infra=k8s")
    elif mount.kind not in ("volume", "bucket"):
        because = "SkyPilot has volumes, buckets, and on Kubernetes folders of the nodes"
        yield from refuse(f"no {mount.kind}", because, "kind: volume, of `sky volumes apply`")
    elif mount.read_only:
        yield from refuse("read_only", "SkyPilot mounts it to be written", "read_only: false")


def targets(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4708: two of `mounts`, `backend.file_mounts` and `backend.extra` at one place of the nodes."""
    said = [(f"mounts.{i}", "mounts", mount.target) for i, mount in enumerate(plan.mounts)]
    said += [(f"backend.file_mounts.{target}", "backend.file_mounts", target) for target in options.file_mounts]
    exact = {target for _, _, target in said}  # of these JC4600 tells
    for section in ("volumes", "file_mounts"):
        key = f"backend.extra.{section}"
        said += [(f"{key}.{t}", key, t) for t in mapping(options.extra.get(section)) if t not in exact]
    owners = {normpath(task.sent(plan)): "the code"} if plan.code.kind == "git" else {}
    for name, key, target in said:
        place = normpath(target)
        if place in owners:
            because = f"{owners[place]} is at {place}, and a node has one thing at a path"
            yield Diagnostic("JC4708", f"{name}: target {target} is taken", because, f"target: {place}-2", key=key)
        owners.setdefault(place, name)


def queue(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4712: wishes that only a scheduler hears."""
    wishes = {
        f"queue.{n}": getattr(plan.queue, n)
        for n in ("account", "qos", "reservation", "nodelist", "exclude", "exclusive", "after")
    }
    wishes["hosts"] = plan.resources.hosts
    heard = options.cloud == "slurm"
    if cloud(plan, options) not in ("slurm", "kubernetes") or (heard and any("/" not in i for _, i in infras(options))):
        wishes["queue.name"] = plan.queue.name
    for key, value in wishes.items():
        if value and (not heard or key == "queue.name"):
            where = options.infra or cloud(plan, options) or "any"
            because = f"infra {where} has no word for it; the job is the same without"
            hint = f"leave out {key}, or backend.infra=slurm/CLUSTER"
            yield Diagnostic("JC4712", f"{key} is left out", because, hint, key=key, severity=Severity.NOTE)


def image(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4717"""
    if plan.container.image is None:
        return
    yield from pyxis(plan, options)
    if plan.container.image.startswith("docker:"):
        because = "jobc says docker: itself, and SkyPilot would look for it twice"
        yield Diagnostic(
            "JC4717", "docker: stands before the image", because, f"image={plan.container.image[7:]}", key="image"
        )
    elif not re.fullmatch(IMAGE, plan.container.image):
        because = "it is [REGISTRY/]NAME[:TAG][@DIGEST], the name in small letters"
        hint = "image=pytorch/pytorch:2.9.0"
        yield Diagnostic("JC4717", f"{plan.container.image!r} is no image", because, hint, key="image")


def pyxis(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4711: an image on Slurm takes a plugin; a note where nobody has said whether it is there."""
    if cloud(plan, options) != "slurm" or options.pyxis:
        return
    without = "image=null container=none env=venv"
    if options.pyxis is None:
        because = "SkyPilot refuses it when it launches, unless this Slurm has the plugin Pyxis"
        hint = f"`srun --help | grep container-image` there tells; then backend.pyxis=true, else {without}"
        yield Diagnostic("JC4711", "an image on slurm", because, hint, key="image", severity=Severity.NOTE)
    else:
        because = "this Slurm has no plugin Pyxis (backend.pyxis=false), and SkyPilot refuses images there"
        yield Diagnostic("JC4711", "slurm runs no image", because, without, key="image")


def name(options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4717"""
    if options.cluster is not None and not re.fullmatch(LAUNCH_NAME, options.cluster):
        because = "a letter, then letters, digits and -_. but none of these last"
        hint = f"backend.cluster={task.cluster_name(options.cluster)}"
        yield Diagnostic("JC4717", f"{options.cluster!r} is no name of a cluster", because, hint, key="backend.cluster")
