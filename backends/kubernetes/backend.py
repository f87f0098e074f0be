"""Kubernetes: one pod per node, in an Indexed Job, a JobSet or a TrainJob; each pod starts its node's ranks.

Emits: job.yaml, with a ConfigMap that holds launch.sh and everything else that the pods read.
Launch: ./jobctl submit, or kubectl apply -f job.yaml
Source: Kubernetes API 1.32 to 1.37, kubectl 1.32; observed on Kubernetes v1.36.2.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from ...compiler.diagnostics.diagnostic import Diagnostic, Severity, has_errors
from ...compiler.emit.artifact import Artifact
from ...compiler.emit.extra_entries import check_extra_entries
from ...compiler.emit.render import DigestLeaf, JsonTextLeaf, Render, evaluate_document, of
from ...compiler.emit.source_map import SpecValue
from ...compiler.plan.launch_plan import LaunchPlan
from ...compiler.plan.runtime_vars import RuntimeVar, Scope, Spelling
from ...compiler.plugins.backend import ANY, NODE_LAUNCHERS, FileEmbeddingBackend, Filled
from ...compiler.rules import findings, run_all
from ...compiler.spec.job_spec import JobSpec
from .._shared import kubernetes_fields as fields
from . import extra_fields, objects, pod
from .config_map import add_config_map
from .names import object_name, plan_digest, pod_host
from .network import RDMA_PROFILES
from .options import KubernetesOptions
from .pod_beside_job import LONE_POD, pod_beside_job
from .yaml_comments import comments_for_job_yaml

STAYS = ("spec.yaml",)  # files that are not sent to the pods


class KubernetesBackend(FileEmbeddingBackend):
    name = "kubernetes"
    Options = KubernetesOptions
    launch = "./jobctl submit"
    sends_code = True
    spellings: ClassVar[Mapping[RuntimeVar, Spelling]] = {
        RuntimeVar.JOB_ID: Spelling(Scope.NODE, "the object's name"),
        RuntimeVar.RUN_ID: Spelling(Scope.NODE, "$JOBC_RUN_ID, or from the object's uid"),
        RuntimeVar.RUN_DIR: Spelling(Scope.NODE, "$JOBC_RUN_ROOT/plan.run.folder/$JOBC_RUN_ID"),
        RuntimeVar.ATTEMPT: Spelling(Scope.NODE, "the pods agree on it in the run folder (join_shared_run.py)"),
        RuntimeVar.NODE_RANK: Spelling(Scope.NODE, "$JOB_COMPLETION_INDEX"),
        RuntimeVar.HEAD_ADDR: Spelling(Scope.NODE, "DNS name of pod 0 under the Service"),
        RuntimeVar.HEAD_PORT: Spelling(Scope.NODE, "plan.rendezvous.port, or 0: node 0 chooses a port and shares it"),
    }
    honours: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "launcher": NODE_LAUNCHERS,
        "setup.kind": ("image", "none", "venv", "conda", "uv"),
        "container.kind": ("pod",),
        "run.storage": ("shared", "node", "object"),
        "code.kind": ("snapshot", "image", "git", "shared", "none"),
        "secret_kinds": ("k8s", "file"),
        "network.profile": ("auto", "ethernet", "tcpx", *RDMA_PROFILES),
        **dict.fromkeys(("container.image", "container.workdir", "mounts", "labels", "network.interface"), ANY),
        **{f"resources.{name}": ANY for name in ("gpu_type", "cpus", "mem_bytes", "shm_bytes", "hosts")},
        **{f"lifecycle.{name}": ANY for name in ("time_limit_s", "keep_s", "max_requeues")},
        **{f"queue.{name}": ANY for name in ("name", "priority", "nodelist", "exclude")},
    }

    def filled(self, spec: JobSpec, options: KubernetesOptions, values: Mapping[str, SpecValue]) -> Iterator[Filled]:
        """Yield backend.default_image for a job without an image.

        A job with AMD GPUs gets none, because the default image is built for NVIDIA GPUs.
        """
        image = options.default_image
        if spec.image is None and spec.container.kind == "pod" and image and options.gpu_resource == "nvidia.com/gpu":
            because = "the default image has Python and PyTorch, but none of your packages"
            title = f"image is not set: the pods run {image} (backend.default_image)"
            hint = f"set image to one that has your packages, or to {image} if you need no others"
            note = Diagnostic("JC4523", title, because, hint, key="image", severity=Severity.WARNING)
            yield Filled("image", image, ("backend.default_image",), note)

    def check(self, plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
        of_job = partial(findings, f"{__package__}.rules", plan, options)
        return run_all(of_job, partial(_check_extra, plan, options))

    def emit(self, plan: LaunchPlan, options: KubernetesOptions, render: Render) -> Iterator[Artifact]:
        render = render.with_digest(plan_digest(plan, options))
        documents = objects.job_yaml_documents(plan, options)
        yield render.yaml(documents, "job.yaml", comments_for_job_yaml(documents, plan, options), fold=True)

    def carry(self, files: Sequence[Artifact], settings: Artifact, program: bytes) -> Iterator[Artifact]:
        """Yield job.yaml, with the pods' files in a ConfigMap, then the files that only people read."""
        by_path = {file.path: file for file in files}
        name = json.loads(settings.text)["creates"]["object"]
        carried = [file for file in files if file.path not in ("job.yaml", *STAYS)]
        yield add_config_map(by_path["job.yaml"], name, carried, settings, program)
        yield from (by_path[path] for path in STAYS)

    def shares_runs(self, spec: JobSpec, options: KubernetesOptions) -> bool:
        return spec.storage.root.startswith("/")

    def data_hint(self, plan: LaunchPlan, options: KubernetesOptions, path: Path) -> str:
        lasting = [mount.target.rstrip("/") for mount in plan.mounts if mount.kind != "empty"]
        if lasting:
            return f"storage.data={lasting[0]}/{path.name}"
        mount = "'mounts=[{kind: claim, source: CLAIM, target: /shared, read_only: false}]'"
        return f"{mount} storage.data=/shared/{path.name}"

    def engine_settings(self, plan: LaunchPlan, options: KubernetesOptions) -> Mapping[str, Any]:
        name = plan_digest(plan, options)
        return {
            "runs": lambda v: str(v.options.records),
            "context": of.options.context,
            "namespace": of.options.namespace,
            "creates": {
                "object": DigestLeaf(name, object_name),
                "kind": lambda v: objects.KIND[v.options.flavor],
                "companions": lambda v: objects.COMPANIONS[v.options.flavor],
            },
            "head": DigestLeaf(name, pod.head_dns_name),
            "start_timeout_s": of.options.start_timeout,
            "node_list": DigestLeaf(name, host_list),
            "has_user_id": lambda v: v.options.run_as_user is not None,
            "storage_root": lambda v: pod.run_root(v.plan),
            "kinds": list(objects.KIND.values()),
            "companions": list(objects.COMPANIONS.values()),
            "procs": of.plan.topology.procs,
            "preflight": lambda v: v.options.preflight and v.plan.topology.nodes > 1,
            LONE_POD: DigestLeaf(name, JsonTextLeaf(pod_beside_job(plan, options), of.plan.run.storage)),
        }

    def keeps_order(self, path: tuple[str, ...]) -> bool:
        return path[:1] == ("extra",) and fields.is_list_in_schema(path[1:])


def _check_extra(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    trees = {kind: tree for kind, tree in options.extra.items() if isinstance(tree, Mapping)}
    checks = (
        lambda: findings(f"{__package__}.rules.extra", plan, options),
        lambda: fields.check_extra_fields(options.extra),
        lambda: check_extra_entries(trees, extra_fields.protected_fields(plan, options)),
    )
    diagnostics = [*run_all(*checks)]
    yield from diagnostics
    is_checked = extra_fields.POD in options.extra or options.pod_security is not None
    if is_checked and not has_errors(diagnostics):  # otherwise, its fields cannot be read
        template = evaluate_document(pod.pod_template(plan, options), plan, options, plan_digest(plan, options))
        yield from findings(f"{__package__}.rules.finished", template["spec"], options)


def host_list(v: Any) -> str:
    """Return the pods' host names in compact form: hello-1a2b3c4d-[0-3]."""
    first, nodes = pod_host(object_name(v), v.options.flavor, 0), v.plan.topology.nodes
    return first if nodes == 1 else f"{first[:-1]}[0-{nodes - 1}]"


BACKEND = KubernetesBackend()
