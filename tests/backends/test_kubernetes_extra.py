"""Backend kubernetes without a cluster: what backend.extra adds must fit the job, and near misses."""

from typing import Any

import pytest
import yaml

from jobc.backends._shared import kubernetes_fields as fields
from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.backends.manifests import PLAIN, compile_files

NODE = "containers: {node: {%s}}"
MOUNT = "containers: {node: {volumeMounts: {own: {mountPath: %s}}}}, volumes: {own: {emptyDir: {}}}"
FIRST = "initContainers: {a: {image: x, %s}}"
NOBODY_IS_ROOT = f"{FIRST % 'securityContext: {runAsUser: %s}'}, securityContext: {{runAsNonRoot: true}}"


@pytest.mark.parametrize(
    ("form", "right", "wrong"),
    [
        (MOUNT, "/own", "/shared"),
        (MOUNT, "/shared/own", "/shared/."),
        (MOUNT, "/jobc-own", "/jobc/files/"),
        (MOUNT, "/run/jobc", "/jobc"),
        (MOUNT, "/dev/shm2", "/dev/shm"),
        (FIRST, "volumeMounts: {shm: {mountPath: /a}, artifact: {mountPath: /a/b}}",
                "volumeMounts: {shm: {mountPath: /a}, artifact: {mountPath: /a/}}"),
        (FIRST, "volumeMounts: {artifact: {mountPath: /jobc/x}}",
                "volumeMounts: [{name: shm, mountPath: /a}, {name: shm, mountPath: /a}]"),
        ("initContainers: [{%s}]", "name: a, image: x", "image: x"),
        (NODE, "resources: {limits: {cpu: 8}}", "resources: {limits: {cpu: 7999m}}"),
        (NODE, "resources: {limits: {cpu: 1e1}}", "resources: {limits: {cpu: 2}}"),
        (NODE, "resources: {requests: {ephemeral-storage: 1G}, limits: {ephemeral-storage: 1Gi}}",
               "resources: {requests: {ephemeral-storage: 1Gi}, limits: {ephemeral-storage: 1G}}"),
        (NODE, "resources: {requests: {example.com/nic: 2}, limits: {example.com/nic: 2000m}}",
               "resources: {requests: {example.com/nic: 1}, limits: {example.com/nic: 2}}"),
        (NODE, "resources: {requests: {ephemeral-storage: 1G}}", "resources: {requests: {example.com/nic: 1}}"),
        (FIRST, "resources: {requests: {cpu: 700m}, limits: {cpu: 0.7}}",
                "resources: {requests: {cpu: 800m}, limits: {cpu: 0.7}}"),
        (NODE, "securityContext: {runAsUser: 1, runAsNonRoot: true}",
               "securityContext: {runAsUser: 0, runAsNonRoot: true}"),
        (NODE, "securityContext: {runAsUser: 0}", "securityContext: {runAsUser: 0, runAsNonRoot: true}"),
        (NOBODY_IS_ROOT, 1, 0),
    ],
)  # fmt: skip
def test_what_an_extra_says_fits_what_the_job_says(form: str, right: Any, wrong: Any) -> None:
    def word(value: Any) -> str:
        return f"backend.extra.Pod.spec={{{form % value}}}"

    assert compile_files("cpus=8", "backend.preflight=false", word(right))
    with pytest.raises(CompileError) as refused:
        compile_files("cpus=8", "backend.preflight=false", word(wrong))
    (found,) = refused.value.diagnostics
    assert found.code == "JC4550"
    if "[" not in word(wrong):  # below a list key that does not exist a hint could name
        assert compile_files("cpus=8", word(wrong), found.hint)


@pytest.mark.parametrize(
    ("volume", "words"),
    [("code", ("code=snapshot",)), ("runs", ("storage.run=node", "storage.root=runs")), ("shm", ())],
)
def test_a_sidecar_may_mount_the_volumes_of_the_job(volume: str, words: tuple[str, ...]) -> None:
    mount = f"volumeMounts: {{{volume}: {{mountPath: /side}}}}"
    extra = f"backend.extra.Pod.spec={{{FIRST % mount}}}"
    assert compile_job(CompileRequest((*PLAIN, *words, extra), ("train.py",)))


def test_root_by_a_key_of_the_job_where_nobody_is_root() -> None:
    extra = "backend.extra.Pod.spec.securityContext.runAsNonRoot=true"
    with pytest.raises(CompileError) as refused:
        compile_files("backend.run_as_user=0", extra)
    assert [(d.code, d.hint) for d in refused.value.diagnostics] == [("JC4550", "backend.run_as_user=1000")]
    assert compile_files("backend.run_as_user=1000", extra)


SPREAD = "topologySpreadConstraints: [{maxSkew: %s, topologyKey: '%s', whenUnsatisfiable: DoNotSchedule}]"
ONE = "affinity: {%s: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: '%s'}]}}"
NEAR = """affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
    {weight: %s, podAffinityTerm: {topologyKey: zone, labelSelector: {
        matchExpressions: [{key: '%s', operator: Exists}]}}}
]}}"""
NODES = """affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
    {matchExpressions: [{key: '%s', operator: Exists}]}
]}}}"""


@pytest.mark.parametrize(
    ("form", "right", "wrong"),
    [
        ("containers: {node: {envFrom: [{secretRef: {name: %s}}]}}", "a.b-1", "Bad_N"),
        ("containers: {node: {envFrom: [{configMapRef: {name: %s}}]}}", "a.b-1", "Bad_N"),
        ("volumes: {z: {secret: {secretName: %s}}}", "a.b-1", "Bad_N"),
        ("volumes: {z: {configMap: {name: %s}}}", "a.b-1", "Bad_N"),
        ("volumes: {z: {projected: {sources: [{secret: {name: %s}}]}}}", "a.b-1", "Bad_N"),
        ("volumes: {z: {projected: {sources: [{configMap: {name: %s}}]}}}", "a.b-1", "Bad_N"),
        (SPREAD, (1, "topology.kubernetes.io/zone"), (1, "a b")),
        (SPREAD, (1, "zone"), (0, "zone")),
        (ONE, ("podAffinity", "kubernetes.io/hostname"), ("podAffinity", "a b")),
        (ONE, ("podAntiAffinity", "kubernetes.io/hostname"), ("podAntiAffinity", "a b")),
        (NEAR, (100, "jobc/job"), (101, "jobc/job")),
        (NEAR, (1, "jobc/job"), (1, "a b")),
        (NODES, "pool", "a b"),
    ],
)
def test_a_name_that_no_object_and_a_key_that_no_label_has_is_noticed(form: str, right: Any, wrong: Any) -> None:
    def found(value: Any) -> list[str]:
        return [d.code for d in fields.check_extra_fields({"Pod": {"spec": frozen(yaml.safe_load(form % value))}})]

    assert (found(right), found(wrong)) == ([], ["JC4550"])


def frozen(tree: Any) -> Any:
    """Lists as tuples, as the converter has them."""
    if isinstance(tree, dict):
        return {key: frozen(value) for key, value in tree.items()}
    return tuple(map(frozen, tree)) if isinstance(tree, list) else tree
