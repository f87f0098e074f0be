"""Backend kubernetes without a cluster: pods that fit the Pod Security level `restricted`, and what it forbids."""

from __future__ import annotations

import pytest
import yaml

from jobc.compiler.diagnostics.diagnostic import CompileError, Severity
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.backends.manifests import PLAIN, compile_files, lone_pod, pod_specs, strictly
from jobc.tests.podrunner.pod_security import beyond_restricted

RESTRICTED = "backend.pod_security=restricted"
SIDE = "backend.extra.Pod.spec.initContainers.side={image: x, restartPolicy: Always, command: [sleep, inf]}"


@pytest.mark.parametrize("words", [(), ("gpus=8", "backend.run_as_user=1000", "backend.run_as_group=1000"), (SIDE,)])
@pytest.mark.parametrize("flavor", ["job", "jobset", "trainjob"])
def test_a_job_is_what_pod_security_calls_restricted_by_one_option(flavor: str, words: tuple[str, ...]) -> None:
    """Source: Kubernetes "Pod Security Standards", Restricted. The pod runner has rules of its own for it."""

    def problems(*words: str) -> list[list[str]]:
        files = compile_files("nodes=2", f"backend.flavor={flavor}", *words)
        items = [*yaml.safe_load_all(files["job.yaml"]), lone_pod(files)]
        assert [strictly(item, "1.36.0") for item in items] == [""] * len(items)
        return [beyond_restricted(pod) for pod in pod_specs(items)]

    assert problems(RESTRICTED, *words) == [[], []]
    assert all(problems(*words)), "without it"


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ("backend.host_network=true", "hostNetwork"),
        ("mounts=[{kind: host, source: /d, target: /shared, read_only: false}]", "a volume of type hostPath"),
        ("mounts=[{kind: nfs, source: 'a:/b', target: /shared, read_only: false}]", "a volume of type nfs"),
        ("network=infiniband", "capability IPC_LOCK of container node"),
        ("backend.run_as_user=0", "runAsUser=0 of the pod"),
        ("backend.extra.Pod.spec.securityContext.runAsNonRoot=false", "runAsNonRoot of container node"),
        ("backend.extra.Pod.spec.securityContext.seccompProfile.type=Unconfined", "seccompProfile of container node"),
        ("backend.extra.Pod.spec.securityContext.seLinuxOptions.type=spc_t", "seLinuxOptions of the pod"),
        ("backend.extra.Pod.spec.securityContext.appArmorProfile.type=Unconfined", "appArmorProfile of the pod"),
        (
            "backend.extra.Pod.spec.containers.node.securityContext.capabilities.add=[SYS_PTRACE]",
            "capability SYS_PTRACE",
        ),
        ("backend.extra.Pod.spec.containers.node.securityContext.allowPrivilegeEscalation=true", "allowPrivilegeEsc"),
        ("backend.extra.Pod.spec.containers.node.securityContext.procMount=Unmasked", "procMount of container node"),
        ("backend.extra.Pod.spec.containers.node.ports.web={containerPort: 80, hostPort: 80}", "hostPort of container"),
    ],
)
def test_what_the_restricted_level_forbids_is_one_diagnostic(words: str, field: str) -> None:
    with pytest.raises(CompileError) as refused:
        compile_job(
            CompileRequest((*PLAIN, "nodes=2", "gpus=8", "backend.network_resource=rdma/a:1", words, RESTRICTED))
        )
    (error,) = (each for each in refused.value.diagnostics if each.severity == Severity.ERROR)
    assert error.code == "JC4525" and field in error.title, error
