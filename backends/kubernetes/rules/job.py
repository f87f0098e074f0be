"""The job's object and its pods: JC4102, JC4501, JC4506, JC4507, JC4509, JC4511, JC4512."""

import re
from collections.abc import Iterator
from pathlib import Path

from ....compiler.api import Diagnostic, LaunchPlan, Severity
from ....compiler.emit.render import evaluate_document
from ....compiler.pipeline.jobctl_program import job_program_contents, pack_program_for_nodes
from ....compiler.spec.examples import IMAGE
from ..config_map import compressed_jobctl_lines
from ..names import LONGEST, is_valid_object_name, longest_pod_name, object_name, plan_digest, to_json
from ..options import KubernetesOptions

MOST_CONFIG_KIB = 900  # etcd accepts at most 1024; the rest is for the object itself


def check_no_image(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4512: a pod without an image."""
    if plan.container.image is None:
        because = "a pod runs a container image, which must contain bash, Python and torch"
        hint = f"container=pod python=image image={IMAGE}"
        yield Diagnostic("JC4512", "a pod needs an image", because, hint, key="image")


def check_unsupported_pytorchjob(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4509: a PyTorchJob is not supported, because its pods restart one at a time."""
    if options.flavor == "pytorchjob":
        because = "PyTorchJob restarts pods one at a time, while the other pods hang in their old process group"
        hint = "backend.flavor=trainjob with Kubeflow Trainer 2, or backend.flavor=jobset"
        yield Diagnostic("JC4509", "backend.flavor=pytorchjob is not supported", because, hint, key="backend.flavor")


def check_keep_with_trainjob(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4102: lifecycle.keep is ignored for a TrainJob.

    Source: Trainer 2.3. A TrainJob has no ttlSecondsAfterFinished; if its JobSet had one, the TrainJob would remain.
    """
    if options.flavor == "trainjob" and plan.lifecycle.keep_s is not None:
        because = "a TrainJob stays until it is deleted, for example by `jobctl submit --replace`"
        hint = "backend.flavor=jobset, or lifecycle.keep=null"
        title = "backend.flavor=trainjob ignores lifecycle.keep"
        yield Diagnostic("JC4102", title, because, hint, key="lifecycle.keep", severity=Severity.NOTE)


def check_deadline_before_time_limit(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4511: backend.deadline is 0 or shorter than the time limit."""
    key, limit = "backend.deadline", plan.lifecycle.time_limit_s + plan.lifecycle.kill_after_s
    if options.deadline == 0:
        because = "Kubernetes would end the pods immediately; the minimum is 1s"
        yield Diagnostic("JC4511", f"{key} is 0", because, f"{key}=null, for no deadline", key=key)
    elif options.deadline is not None and plan.lifecycle.time_limit_s and options.deadline < limit:
        because = "the deadline would end the pods while an attempt is still within its time limit"
        hint = f"{key}=null, or at least {key}={limit}s"
        yield Diagnostic("JC4511", f"{key} is shorter than the time limit", because, hint, key=key)


def check_long_name(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4501: a job name that is too long for the names of its pods."""
    name = evaluate_document(object_name, plan, options, plan_digest(plan, options))
    longest = longest_pod_name(name, options.flavor, plan.topology.nodes)
    if len(longest) > LONGEST:
        most = len(plan.name) - (len(longest) - LONGEST)
        because = f"the name becomes {longest}, but Kubernetes allows only {LONGEST} characters"
        hint = f"name={plan.name[:most].strip('._-')}"
        yield Diagnostic("JC4501", f"name is too long: at most {most} characters", because, hint, key="name")


def check_large_job(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4507: a job too large for its ConfigMap, which contains launch.sh, job.json and jobctl.

    The job's own text appears in launch.sh and several times in job.json.
    """
    program = compressed_jobctl_lines(pack_program_for_nodes(job_program_contents(plan), Path(__file__).parents[1]))
    total_kib = (len(program.text) + 6 * len(to_json(plan).encode())) >> 10
    if total_kib > MOST_CONFIG_KIB:
        because = f"a ConfigMap can hold at most {MOST_CONFIG_KIB} KiB, and this job's artifact takes {total_kib} KiB"
        hint = "move long text to a file in the image (code=image) or on a mounted volume (code=shared)"
        yield Diagnostic("JC4507", "the job is too large for a ConfigMap", because, hint)


def check_secret_without_key(plan: LaunchPlan, options: KubernetesOptions) -> Iterator[Diagnostic]:
    """JC4506: a secret reference that does not name a key of a Kubernetes Secret."""
    for name, secret in plan.secrets.items():
        object_, _, key = secret.ref.partition("/")
        if secret.kind == "k8s" and not (is_valid_object_name(object_) and re.fullmatch(r"[-\w.]+", key)):
            title = f"secrets.{name} does not name a key in a Secret"
            because = "a reference must be k8s:SECRET/KEY; a Secret's name may contain only a-z, 0-9, '-' and '.'"
            hint = (
                f"secrets.{name}=k8s:my-secret/token, from `kubectl create secret generic my-secret --from-file=token`"
            )
            yield Diagnostic("JC4506", title, because, hint, key=f"secrets.{name}")
