"""What SkyPilot takes though it is wrong, or refuses late; said now: JC4701 to JC4718.

Each was tried with SkyPilot 0.14.1: `sky.Task.from_yaml`, `validate()`, `sky launch --dryrun` and a real launch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...compiler.diagnostics import Diagnostic, Severity, has_errors, nearest
from ...compiler.extra import refuse_extra
from ...compiler.plan import LaunchPlan, Mount
from .._shared import kubernetes_fields
from .._shared.kubernetes_forms import IMAGE, LABEL_KEY, LABEL_VALUE
from . import schema, task
from .config import PODS, cloud
from .known import CONFIG_KEYS, GPUS, MOST_GPUS, OWNED, SBATCH_TIME, TIERS
from .options import SkypilotOptions

HAS_SITE_GPUS = ("slurm", "kubernetes", "ssh")  # whose GPUs have the names that the site gave them
LAUNCH_NAME = r"[a-zA-Z]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?"


def check(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    found = [*own(plan, options), *refuse_extra(options.extra, task.PROTECTED)]
    yield from found
    if not has_errors(found):
        yield from whole(plan, options)


def own(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """Key by key."""
    yield from infra(options)
    yield from gpus(plan, options)
    yield from storage(plan, options)
    for i, mount in enumerate(plan.mounts):
        yield from mounted(i, mount, options)
    yield from files(options)
    yield from not_there(plan, options)
    yield from queue(plan, options)
    yield from config(options)
    yield from pods(options)
    yield from image(plan, options)
    yield from names(plan, options)


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


def infras(options: SkypilotOptions) -> Iterator[tuple[str, str]]:
    if options.infra is not None:
        yield "backend.infra", options.infra
    for name in ("any_of", "ordered"):
        yield from ((f"backend.{name}", each.infra) for each in getattr(options, name) if each.infra is not None)


def _is_site(cloud: str) -> bool:
    return cloud.lower() in ("k8s", *HAS_SITE_GPUS)


def _has_pods(infra: str) -> bool:
    return infra.partition("/")[0].lower() in ("k8s", *PODS)


def gpus(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4703 GPUs without a name; JC4704 a name that SkyPilot has not; JC4705 more than a machine has."""
    count = plan.topology.gpus
    asked = {("gpu_type", plan.resources.gpu_type)}
    asked |= {(f"backend.{n}", e.gpu_type) for n in ("any_of", "ordered") for e in getattr(options, n)}
    types = sorted((key, text) for key, text in asked if text is not None)
    if count and not types and options.instance_type is None:
        because = "SkyPilot asks for GPUs by name, such as H100:8"
        yield Diagnostic("JC4703", "GPUs of no type", because, "gpu_type=H100", key="gpu_type")
    for key, name in types:
        if name not in GPUS:
            near = nearest(name.upper(), GPUS)
            free = cloud(plan, options) in HAS_SITE_GPUS
            because = "SkyPilot takes any name, and finds none when it launches"
            hint = f"gpu_type={near[0]}" if near else "gpu_type=H100; `sky gpus list` shows them"
            severity = Severity.WARNING if free else Severity.ERROR  # a site may have called its own so
            yield Diagnostic("JC4704", f"no GPU {name} is known", because, hint, key=key, severity=severity)
        if count > GPUS.get(name, MOST_GPUS):
            most = GPUS.get(name, MOST_GPUS)
            nodes = -(-count * plan.topology.nodes // most)
            because = f"a machine has at most {most} of them, and gpus is per node"
            yield Diagnostic("JC4705", f"{count} {name} on a node", because, f"nodes={nodes} gpus={most}", key="gpus")


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
    if own_disks and options.managed:
        because = "a managed job goes on elsewhere, on new machines, where its checkpoints must be"
        hint = "storage.run=object storage.root=s3://my-bucket/runs, or backend.managed=false"
        yield Diagnostic("JC4707", "a managed job with runs on the nodes' own disks", because, hint, key="storage.run")
    if not shared and plan.lifecycle.max_restarts and plan.topology.nodes > 1:
        because = "the nodes agree on a restart in a run folder that all see"
        yield Diagnostic(
            "JC4707", "no restart in place", because, "lifecycle.max_restarts=0", key="lifecycle.max_restarts"
        )


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


def files(options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4709: a relative source would be looked for where `sky launch` is called; submit.sh checks the others."""
    for target, source in options.file_mounts.items():
        key = f"backend.file_mounts.{target}"
        if not re.match(r"/|~/|[a-z0-9]+://", source):
            because = "SkyPilot looks for it in the folder where it is called, which is that of the run"
            yield Diagnostic(
                "JC4709", f"{source!r} is no absolute path", because, f"~/{source}, or a bucket URL", key=key
            )


def not_there(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4711: what SkyPilot's schema takes, and an infrastructure has not."""
    spot = options.use_spot or any(e.use_spot for e in (*options.any_of, *options.ordered))
    if spot and options.cloud in ("slurm", "ssh"):
        yield Diagnostic(
            "JC4711",
            f"{options.cloud} has no spot machines",
            "SkyPilot refuses it when it launches",
            "backend.use_spot=false",
            key="backend.use_spot",
        )
    if options.ports and options.cloud == "slurm":
        because = "SkyPilot cannot open ports of Slurm's nodes"
        yield Diagnostic("JC4711", "slurm opens no ports", because, "backend.ports=[]", key="backend.ports")
    if plan.resources.mem_bytes and options.cloud == "slurm" and not options.tracks_memory:
        because = "this Slurm does not track memory, and would not start what asks for some"
        yield Diagnostic("JC4711", "mem cannot be asked for", because, "mem=null", key="mem")


def queue(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4712 wishes that only a scheduler hears; JC4713 a QOS that is none; JC4714 a priority out of range."""
    wishes = {
        f"queue.{n}": getattr(plan.queue, n)
        for n in ("account", "qos", "reservation", "nodelist", "exclude", "exclusive", "after")
    }
    wishes["hosts"] = plan.resources.hosts
    heard = options.cloud == "slurm"
    if cloud(plan, options) not in ("slurm", "kubernetes") or (heard and (options.infra or "").count("/") == 0):
        wishes["queue.name"] = plan.queue.name
    for key, value in wishes.items():
        if value and (not heard or key == "queue.name"):
            where = options.infra or cloud(plan, options) or "any"
            because = f"infra {where} has no word for it; the job is the same without"
            hint = f"leave out {key}, or backend.infra=slurm/CLUSTER"
            yield Diagnostic("JC4712", f"{key} is left out", because, hint, key=key, severity=Severity.NOTE)
    if heard and plan.queue.qos and options.qos is not None and plan.queue.qos not in options.qos:
        because = f"backend.qos has {', '.join(options.qos) or 'none'}; SkyPilot launches, and Slurm never starts it"
        hint = f"queue.qos={(nearest(plan.queue.qos, options.qos) or [*options.qos, 'null'])[0]}"
        yield Diagnostic("JC4713", f"no QOS {plan.queue.qos} at this site", because, hint, key="queue.qos")
    priority = plan.queue.priority
    if priority is not None and re.fullmatch(r"-?\d+", priority) and not -1000 <= int(priority) <= 1000:
        because = "a number is from -1000 to 1000; any other text is a priority class"
        yield Diagnostic("JC4714", f"priority {priority}", because, "queue.priority=1000", key="queue.priority")


def config(options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4715 keys that a task may not override, which SkyPilot drops; JC4716 options of sbatch."""
    for section, inner in options.config.items():
        key = f"backend.config.{section}"
        if section not in CONFIG_KEYS:
            near = nearest(section, CONFIG_KEYS) or ["kubernetes"]
            because = f"of ~/.sky/config.yaml a task may set {', '.join(sorted(CONFIG_KEYS))}"
            yield Diagnostic("JC4715", f"SkyPilot would drop {key}", because, f"backend.config.{near[0]}", key=key)
            continue
        for name in inner if isinstance(inner, Mapping) else ():
            if name not in CONFIG_KEYS[section]:
                near = nearest(name, CONFIG_KEYS[section]) or [*CONFIG_KEYS[section]]
                because = (
                    f"a task may set {', '.join(CONFIG_KEYS[section])} there, and any other key is taken and not read"
                )
                hint = f"{key}.{near[0]}" if near else f"leave out {key}"
                yield Diagnostic("JC4715", f"SkyPilot would drop {key}.{name}", because, hint, key=f"{key}.{name}")
    yield from _sbatch_options(options)


def pods(options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4540, JC4550: a pod_config with fields or words that Kubernetes has not."""
    for section in PODS:
        inner = options.config.get(section)
        if isinstance(inner, Mapping) and "pod_config" in inner:
            for found in kubernetes_fields.check_pod(inner["pod_config"], ("backend", "config", section, "pod_config")):
                because = "SkyPilot hands it on unread, and Kubernetes drops it or refuses the pods"
                yield replace(found, because=because)


def _sbatch_options(options: SkypilotOptions) -> Iterator[Diagnostic]:
    slurm = options.config.get("slurm")
    given = slurm.get("sbatch_options") if isinstance(slurm, Mapping) else None
    for name, value in (given or {}).items() if isinstance(given or {}, Mapping) else ():
        yield from _sbatch_option(str(name), value)


def _sbatch_option(name: str, value: Any) -> Iterator[Diagnostic]:
    key, option = f"backend.config.slurm.sbatch_options.{name}", name.lstrip("-")
    if option in OWNED:
        because = f"SkyPilot says it itself, from {OWNED[option]}, and drops this with a warning"
        yield Diagnostic("JC4716", f"{key} has no effect", because, f"leave it out, and set {OWNED[option]}", key=key)
    elif option in ("time", "t") and not re.fullmatch(SBATCH_TIME, str(value), re.IGNORECASE):
        because = "sbatch reads minutes, HH:MM:SS or D-HH:MM:SS, and SkyPilot hands on what it gets"
        yield Diagnostic("JC4716", f"{key}: {value!r} is no time", because, f'{key}="12:00:00"', key=key)


def image(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4717; JC4711 where it takes a plugin."""
    if plan.container.image is None:
        return
    if cloud(plan, options) == "slurm":
        because = "SkyPilot refuses it when it launches, unless this Slurm has the plugin Pyxis"
        hint = "`srun --help | grep container-image` there tells; else image=null container=none env=venv"
        yield Diagnostic("JC4711", "an image on slurm", because, hint, key="image", severity=Severity.NOTE)
    if plan.container.image.startswith("docker:"):
        because = "jobc says docker: itself, and SkyPilot would look for it twice"
        yield Diagnostic(
            "JC4717", "docker: stands before the image", because, f"image={plan.container.image[7:]}", key="image"
        )
    elif not re.fullmatch(IMAGE, plan.container.image):
        because = "it is [REGISTRY/]NAME[:TAG][@DIGEST], the name in small letters"
        hint = "image=pytorch/pytorch:2.9.0"
        yield Diagnostic("JC4717", f"{plan.container.image!r} is no image", because, hint, key="image")


def names(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4717"""
    for port in options.ports:
        first, dash, last = port.partition("-")
        numbers = [int(text) for text in (first, last if dash else first) if re.fullmatch(r"[0-9]{1,5}", text)]
        if len(numbers) < 2 or not 0 < numbers[0] <= numbers[1] < 2**16:
            because = "it is PORT or FIRST-LAST, from 1 to 65535"
            hint = "backend.ports=[6006, 8000-8010]"
            yield Diagnostic("JC4717", f"{port!r} is no port", because, hint, key="backend.ports")
    for name, text in plan.labels.items() if cloud(plan, options) in PODS else ():
        if not re.fullmatch(LABEL_KEY, name) or not re.fullmatch(LABEL_VALUE, text):
            because = "Kubernetes takes at most 63 of A-Za-z0-9-_. with a letter or digit at both ends"
            hint = f"labels.{name}={re.sub(r'[^A-Za-z0-9]+', '-', text)[:63].strip('-')}"
            yield Diagnostic("JC4717", f"labels.{name}={text!r} is no label", because, hint, key=f"labels.{name}")
    if options.cluster is not None and not re.fullmatch(LAUNCH_NAME, options.cluster):
        because = "a letter, then letters, digits and -_. but none of these last"
        hint = f"backend.cluster={task.cluster_name(options.cluster)}"
        yield Diagnostic("JC4717", f"{options.cluster!r} is no name of a cluster", because, hint, key="backend.cluster")


def whole(plan: LaunchPlan, options: SkypilotOptions) -> Iterator[Diagnostic]:
    """JC4718: SkyPilot's own schema, on the task as it will be written."""
    resources = options.extra.get("resources")
    resources = resources if isinstance(resources, Mapping) else {}
    for name, words in TIERS.items():
        if resources.get(name) not in (None, *words):
            title, key = f"SkyPilot would refuse resources.{name}", f"backend.extra.resources.{name}"
            hint = f"leave it out, and set backend.{name}={words[0]}"
            yield Diagnostic("JC4718", title, f"it must be one of {', '.join(words)}", hint, key=key)
    for at, why in schema.problems(task.plain(task.document(plan, options), plan, options)):
        place = ".".join(map(str, at))
        in_extra = _has(options.extra, at)
        key = f"backend.extra.{place}" if in_extra else f"backend.{place}" if at[:1] == ("config",) else ""
        hint = f"leave out {key}" if key else "docs.skypilot.co/en/latest/reference/yaml-spec.html"
        yield Diagnostic("JC4718", f"SkyPilot would refuse {place}", why, hint, key=key)


def _has(tree: Any, at: schema.At) -> bool:
    for part in at:
        if not isinstance(tree, Mapping) or part not in tree:
            return False
        tree = tree[part]
    return True
