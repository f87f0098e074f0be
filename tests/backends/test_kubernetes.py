"""Backend kubernetes without a cluster: what it emits fits real schemas, fits together, and says what it was asked."""

from __future__ import annotations

import copy
import runpy
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobc.backends._shared import kubernetes_fields as fields
from jobc.backends.kubernetes import checks, objects
from jobc.backends.kubernetes.names import LONGEST, longest_pod
from jobc.backends.kubernetes.pod import literal, quantity, toleration
from jobc.compiler.diagnostics import CompileError
from jobc.compiler.driver import Request, compile_job, write_job
from jobc.compiler.equivalence.check import check as check_files
from jobc.compiler.golden import read_case
from jobc.compiler.plan import NodeGroup, Topology
from jobc.tests.podrunner import KUBECTL
from jobc.tests.podrunner.environment import expand
from jobc.tests.podrunner.schema import invalid, problem

GOLDEN = Path(__file__).parents[1] / "golden" / "kubernetes"
FILES = sorted(GOLDEN.glob("*/expected/*.yaml"))
MANIFESTS = [file for file in FILES if file.name in ("job.yaml", "pod.yaml")]
MINORS = ("1.31.0", "1.34.0", "1.36.0", "1.37.0")
SHARED = "mounts=[{kind: claim, source: shared, target: /shared, read_only: false}]"
PLAIN = ("backend=kubernetes", "image=x", "storage.root=/shared/runs", SHARED)


def compile_files(*words: str) -> dict[str, str]:
    return {file.path: file.text for file in compile_job(Request((*PLAIN, *words))).artifacts}


def codes(*words: str) -> list[str]:
    with pytest.raises(CompileError) as refused:
        compile_job(Request((*PLAIN, *words)))
    return [diagnostic.code for diagnostic in refused.value.diagnostics]


def documents(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text()))


def strictly(item: dict[str, Any], version: str) -> str:
    """What a real decoder of that kind would refuse; a custom resource has one version of models."""
    return problem(item, version) or invalid(item)


@pytest.mark.parametrize("version", MINORS)
def test_every_manifest_fits_the_strict_schema(version: str) -> None:
    assert len(MANIFESTS) >= 16
    for file in MANIFESTS:
        for item in documents(file):
            assert strictly(item, version) == "", f"{file}: {item['kind']}"


@pytest.mark.parametrize("case", ["train_on_gpus", "jobset", "trainjob"])
def test_a_field_or_a_kind_that_is_none_is_noticed(case: str) -> None:
    for item in documents(GOLDEN / case / "expected" / "job.yaml"):
        unknown = copy.deepcopy(item)
        unknown["spec"]["nodez"] = 1
        assert strictly(unknown, "1.36.0")
        assert "no matches for kind" in problem({**item, "kind": "Jobb"})
        for pod in pod_specs(item):
            pod["containers"][0]["imagePolicy"] = "Always"
            assert strictly(item, "1.36.0")


def pod_specs(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "containers" in node:
            yield node
        for inner in node.values():
            yield from pod_specs(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from pod_specs(inner)


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: f"{file.parts[-3]}-{file.name}")
def test_names_within_a_manifest_fit_together(file: Path) -> None:
    for pod in (spec for item in documents(file) for spec in pod_specs(item)):
        (container,) = pod["containers"]
        volumes = [volume["name"] for volume in pod["volumes"]]
        everyone = [container, *pod.get("initContainers", ())]
        mounts = {mount["name"] for each in everyone for mount in each["volumeMounts"]}
        shared = {"sys", "proc-sys"} & set(volumes)  # pod.yaml has no sidecar, which alone mounts them
        assert mounts | shared == set(volumes) and len(set(volumes)) == len(volumes)
        limits, requests = (container["resources"].get(kind, {}) for kind in ("limits", "requests"))
        assert limits.items() <= requests.items()
    items = {item["kind"]: item for item in documents(file)}
    if "Service" in items:
        job, service = items["Job"]["spec"], items["Service"]
        labels = job["template"]["metadata"]["labels"]
        name = service["metadata"]["name"]
        assert service["spec"]["selector"].items() <= labels.items()
        assert job["template"]["spec"]["subdomain"] == name == items["Job"]["metadata"]["name"]
        env = {entry["name"]: entry.get("value") for entry in job["template"]["spec"]["containers"][0]["env"]}
        assert env["JOBC_HEAD_ADDR"] == f"{name}-0.{name}"
        assert job["completions"] == job["parallelism"]


def test_kustomize_puts_every_file_that_a_pod_needs_into_the_config_map(tmp_path: Path) -> None:
    compiled = compile_job(read_case(GOLDEN / "train_on_gpus"))
    artifact = write_job(compiled, tmp_path)
    made = subprocess.run([KUBECTL, "kustomize", artifact], capture_output=True, text=True, check=True).stdout
    items = {item["kind"]: item for item in yaml.safe_load_all(made)}
    data = items["ConfigMap"]["data"]
    texts = {file.path: file.text for file in compiled.artifacts}
    assert {key.replace("--", "/"): text for key, text in data.items()} == {
        path: text
        for path, text in texts.items()
        if path.startswith("lib/") or path in ("task.sh", "node.sh", "train.json", "spec.yaml")
    }
    assert items["ConfigMap"]["immutable"] is True
    assert items["Job"]["spec"] == documents(artifact / "job.yaml")[1]["spec"]
    assert strictly(items["ConfigMap"], "1.36.0") == ""


@pytest.mark.parametrize("text", ["$(HOME)", "$$(A)", "a$b", "$", "$$", "x$(JOBC_JOB_ID)y", "$(A", "${A}"])
def test_literal_text_is_what_the_container_gets(text: str) -> None:
    assert expand(literal(text), {"HOME": "/root", "A": "1", "JOBC_JOB_ID": "j"}) == text


def test_another_plan_has_another_name_and_the_same_one_the_same() -> None:
    def name(*words: str) -> str:
        return str(yaml.safe_load(compile_files(*words)["job.yaml"].split("---")[0])["metadata"]["name"])

    assert name("nodes=2") == name("nodes=2")
    assert len({name(), name("nodes=2"), name("env.A=1"), name("optim.lr=0.5"), name("backend.host_network=true")}) == 5


@pytest.mark.parametrize("flavor", ["job", "jobset", "trainjob"])
def test_the_longest_name_that_is_taken_fits_with_every_suffix(flavor: str) -> None:
    longest = LONGEST - len(longest_pod("-12345678", flavor, 16))
    compile_files(f"name={'n' * longest}", "nodes=16", f"backend.flavor={flavor}")
    assert codes(f"name={'n' * (longest + 1)}", "nodes=16", f"backend.flavor={flavor}") == ["JC4501"]


def test_retries_count_pods_for_a_job_and_attempts_for_a_jobset() -> None:
    job = yaml.safe_load_all(compile_files("nodes=4", "lifecycle.max_requeues=3")["job.yaml"])
    assert [item["spec"]["backoffLimit"] for item in job if item["kind"] == "Job"] == [12]
    (job_set,) = yaml.safe_load_all(compile_files("nodes=4", "backend.flavor=jobset")["job.yaml"])
    assert job_set["spec"]["failurePolicy"]["maxRestarts"] == 3
    assert job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] == 0
    assert objects.AGAIN == [69, 75]


def test_the_fields_that_are_known_are_those_of_the_schemas() -> None:
    tool = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "kubernetes_fields.py"))
    assert tool["FILE"].read_text() == tool["made"](), "python tools/kubernetes_fields.py"


def test_fields_of_every_shape_are_taken() -> None:
    for word in (
        "Pod.metadata.annotations={a: 1, b: true}", "Pod.spec.containers.node.env.A.value=1",
        "Pod.spec.tolerations=[{key: a, operator: Exists}]", "Pod.spec.schedulerName=null",
        "Pod.spec.containers.node.resources.limits.ephemeral-storage=5Gi", "Job.spec.manualSelector=true",
        "Pod.spec.containers.side={image: x, ports: [{containerPort: 80, protocol: TCP}]}",
        "Pod.spec.volumes.v={emptyDir: {medium: HugePages-2Mi, sizeLimit: 1.5Gi}}", "Pod.spec.volumes.w=null",
        "Pod.spec.initContainers.a={image: 'reg.example.org:5000/a/b__c:v1', volumeMounts: {shm: {mountPath: /x}}}",
        "Pod.spec.containers.node.resources.limits={hugepages-2Mi: 1Gi, example.com/nic: 2}",
        "Pod.spec.hostPID=false", "Job.spec.suspend=false", "Pod.spec.containers.node.env.NOT_RANK.value=1",
        "Pod.spec.initContainers.a={image: x, env: {RANK: {value: 0}}}", "Pod.spec.dnsPolicy=ClusterFirst",
    ):  # fmt: skip
        compile_files(f"backend.extra.{word}")


@pytest.mark.parametrize(
    ("flavor", "words"),
    [
        (
            "jobset",
            ("JobSet.spec.startupPolicy.startupPolicyOrder=InOrder", "JobSet.spec.replicatedJobs.node.groupName=7"),
        ),
        ("jobset", ("JobSet.spec.coordinator={replicatedJob: node, jobIndex: 0}", "JobSet.metadata.labels.team=1")),
        (
            "trainjob",
            (
                "TrainingRuntime.spec.podGroupPolicy.coscheduling.scheduleTimeoutSeconds=90",
                "TrainJob.spec.managedBy=a/b",
            ),
        ),
    ],
)
def test_fields_of_the_other_flavors_are_taken_and_fit_their_models(flavor: str, words: tuple[str, ...]) -> None:
    files = compile_files("nodes=2", f"backend.flavor={flavor}", *(f"backend.extra.{word}" for word in words))
    assert [strictly(item, "1.36.0") for item in yaml.safe_load_all(files["job.yaml"])] == [""] * (
        1 + (flavor != "jobset")
    )


def test_what_a_machine_of_aws_has_and_the_bound_of_shared_memory_need_not_be_typed() -> None:
    files = compile_files("nodes=2", "network=efa", "gpus=8", "gpu_type=NVIDIA-H100-80GB-HBM3")
    spec = next(pod_specs([*yaml.safe_load_all(files["job.yaml"])]))
    assert spec["containers"][0]["resources"]["limits"]["vpc.amazonaws.com/efa"] == "32"
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}} in spec["volumes"]


@pytest.mark.parametrize(("gpus", "nodes", "hint"), [(12, 2, "nodes=3 gpus=8"), (9, 2, "nodes=3 gpus=6"), (8, 2, None)])
def test_more_gpus_than_most_nodes_have_are_a_warning(gpus: int, nodes: int, hint: str | None) -> None:
    made = compile_job(Request((*PLAIN, f"gpus={gpus}", f"nodes={nodes}")))
    said = [(d.severity.value, d.hint) for d in made.diagnostics if d.code == "JC4505"]
    assert said == ([("warning", hint)] if hint else [])


@pytest.mark.parametrize(
    ("gpu_type", "usual", "most"),
    [
        ("H100", 8, 10),
        ("NVIDIA-H100-80GB-HBM3", 8, 10),
        ("nvidia-h100-mega-80gb", 8, 10),
        ("GB200", 4, 4),
        ("GH200", 2, 2),
        ("L4", 8, 16),
        ("A100", 8, 16),
        ("NVIDIA-A100-SXM4-80GB", 8, 16),
        ("Tesla-V100-SXM3-32GB", 8, 16),
        (None, 8, 16),
        ("X1", 8, 16),
    ],
)
def test_a_type_says_how_many_gpus_a_node_may_have(gpu_type: str | None, usual: int, most: int) -> None:
    made = compile_job(Request((*PLAIN, "gpus=1"))).plan

    def said(count: int) -> list[str]:
        topology = Topology((NodeGroup(1, count, count),))
        plan = replace(made, topology=topology, resources=replace(made.resources, gpu_type=gpu_type))
        return [d.severity.value for d in checks.gpus(plan)]

    assert said(usual) == [] and said(most + 1) == ["error"]
    assert said(most) == (["warning"] if most > usual else [])


def test_code_on_a_volume_is_shared_code_by_another_name() -> None:
    volume, shared = (compile_files(f"code={word}", "code.root=/shared/a") for word in ("volume", "shared"))
    differ = [path for path, text in volume.items() if text != shared[path]]
    assert sorted(differ) == [".jobc/manifest.json", ".jobc/sourcemap.json"], "which say what was typed"


def test_what_only_opens_the_pod_to_its_node_is_a_warning() -> None:
    made = compile_job(Request((*PLAIN, "backend.extra.Pod.spec.hostIPC=true")))
    assert [(d.code, d.severity.value) for d in made.diagnostics if d.code == "JC4522"] == [("JC4522", "warning")]


def test_the_hints_for_text_that_kubernetes_does_not_take_compile() -> None:
    words = (
        "queue.name=Team_A", "labels.team=audio team", "labels.x_=y", "image=docker://Some/X:V1", "hosts=[A_1,b]",
        "backend.node_selector=['a b=c','d']", "backend.namespace=-x.y", "backend.gpu_label=a b",
        "backend.affinity=A_B/c d", "backend.tolerations=['dedicated=ml:Never','a b']", "container.workdir=here",
        "backend.image_pull_secrets=[A_b]", "backend.gpu_labels.H100=['a b',c]",
    )  # fmt: skip
    with pytest.raises(CompileError) as refused:
        compile_job(Request((*PLAIN, *words)))
    found = [d for d in refused.value.diagnostics if d.code == "JC4504"]
    assert len(found) == len(refused.value.diagnostics) == 15, "two items of two lists are wrong"
    hints = {word for d in found for word in shlex.split(d.hint.removesuffix(", in place of it"))}
    assert len(hints) == len(words)
    compile_job(Request((*PLAIN, *hints)))


def test_items_by_their_names_become_a_list_and_numbers_text_where_the_api_has_text() -> None:
    words = (
        "Pod.spec.initContainers.fetch={image: x, command: [sleep, 1], env: {A: {value: true}}}",
        "Pod.spec.containers.side={image: x, ports: {web: {containerPort: 80}}}",
        "Pod.spec.initContainers.none=null",
    )
    files = compile_files(*(f"backend.extra.{word}" for word in words), "backend.extra.Job.metadata.labels.team=1")
    _, job = yaml.safe_load_all(files["job.yaml"])
    spec, env = job["spec"]["template"]["spec"], [{"name": "A", "value": "true"}]
    assert spec["initContainers"] == [{"name": "fetch", "image": "x", "command": ["sleep", "1"], "env": env}]
    assert spec["containers"][1] == {"name": "side", "image": "x", "ports": [{"name": "web", "containerPort": 80}]}
    assert job["metadata"]["labels"]["team"] == "1"
    assert strictly(job, "1.36.0") == ""


@pytest.mark.parametrize(
    ("words", "label", "values"),
    [
        (("gpu_type=NVIDIA-H200",), "nvidia.com/gpu.product", {"NVIDIA-H200"}),
        (("gpu_type=L40S",), "nvidia.com/gpu.product", {"NVIDIA-L40S"}),
        (("gpu_type=a100-40gb",), "nvidia.com/gpu.product", {"NVIDIA-A100-PCIE-40GB", "NVIDIA-A100-SXM4-40GB"}),
        (("gpu_type=NVIDIA-R200",), "nvidia.com/gpu.product", {"NVIDIA-R200"}),
        (
            ("gpu_type=MI355X", "backend.gpu_resource=amd.com/gpu"), "amd.com/gpu.product-name",
            {"AMD_Instinct_MI355X", "AMD_Instinct_MI355X_VF", "AMD_Instinct_MI355_OAM"},
        ),
        (
            ("gpu_type=H100", "backend.gpu_label=cloud.google.com/gke-accelerator"), "cloud.google.com/gke-accelerator",
            {"nvidia-h100-80gb", "nvidia-h100-mega-80gb"},
        ),
        (("gpu_type=big", "backend.gpu_label=example.org/card"), "example.org/card", {"big"}),
        (("gpu_type=H100", "backend.gpu_labels.H100=[b, a]"), "nvidia.com/gpu.product", {"a", "b"}),
    ],
)  # fmt: skip
def test_a_type_of_gpu_is_every_value_that_its_label_has_for_it(
    words: tuple[str, ...], label: str, values: set[str]
) -> None:
    made = compile_job(Request((*PLAIN, "nodes=2", "gpus=8", *words)))
    texts = {file.path: file.text for file in made.artifacts}
    spec = next(pod_specs([*yaml.safe_load_all(texts["job.yaml"])]))
    rules = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = [rule for term in rules.get("nodeSelectorTerms", ()) for rule in term["matchExpressions"]]
    asked = {rule["key"]: {*rule["values"]} for rule in terms} | {
        key: {value} for key, value in spec.get("nodeSelector", {}).items()
    }
    assert asked == {label: values}
    assert check_files(texts).differences == ()


def test_sizes_and_taints_are_spelt_as_kubernetes_spells_them() -> None:
    assert [quantity(n) for n in (2**30, 3 * 2**29, 1024, 1000)] == ["1Gi", "1536Mi", "1Ki", "1000"]
    assert toleration("a/b:NoSchedule") == {"key": "a/b", "operator": "Exists", "effect": "NoSchedule"}
    assert toleration("a=b") == {"key": "a", "operator": "Equal", "value": "b"}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("JC2009", ("image=null",)),
        ("JC4501", ("name=" + "n" * 50,)),
        ("JC4502", ("storage.root=runs",)),
        ("JC4502", ("mounts=[{kind: claim, source: s, target: /shared, read_only: true}]",)),
        ("JC4502", ("mounts=[{kind: empty, source: '', target: /shared, read_only: false}]",)),
        ("JC4503", ("mounts=[{kind: bucket, source: s, target: /shared, read_only: false}]",)),
        ("JC4503", ("mounts=[{kind: nfs, source: nas, target: /shared, read_only: false}]",)),
        ("JC4503", ("mounts=[{kind: claim, source: s, target: /usr, read_only: false}]", "storage.root=/usr/runs")),
        ("JC4504", ("queue.name=Team_A",)),
        ("JC4504", ("labels.team=audio team",)),
        ("JC4504", ("image=Upper/X:1",)),
        ("JC4504", ('backend.node_selector=["a b=c"]',)),
        ("JC4504", ("backend.namespace=-x",)),
        ("JC4505", ("gpus=17",)),
        ("JC4505", ("gpus=12", "gpu_type=H100")),
        ("JC4506", ("secrets.A=k8s:Bad_Name/key",)),
        ("JC4600", ("gpu_type=a", "backend.gpu_label=card", "backend.extra.Pod.spec.nodeSelector.card=b")),
        ("JC4600", ("hosts=[a]", "backend.extra.Pod.spec.affinity.nodeAffinity=null")),
        ("JC4521", ("gpus=8", "gpu_type=H1000")),
        ("JC4521", ("gpus=8", "gpu_type=MI300X")),
        ("JC4521", ("gpus=8", "gpu_type=X1", "backend.gpu_labels.X1=[]")),
        ("JC4504", ("gpus=8", "gpu_type=X1", "backend.gpu_labels.X1=[a b]")),
        ("JC4508", ("mem=4GiB", "shm=4GiB")),
        ("JC4509", ("backend.flavor=pytorchjob",)),
        ("JC4510", ("network.profile=infiniband",)),
        ("JC4510", ("backend.network_resource=efa",)),
        ("JC4510", ("network=efa", "gpus=8", "gpu_type=H200")),
        ("JC4510", ("network=efa", "gpus=4", "gpu_type=H100")),
        ("JC4511", ("time=2h", "backend.deadline=1h")),
        ("JC4101", ("secrets.A=env:A",)),
        ("JC4518", ("network=tcpx", "gpus=8", "backend.gke_networks=[vpc1]")),
        ("JC4518", ("network=tcpx", "gpus=4", "backend.gke_networks=[a,b,c,d]")),
        ("JC4518", ("network=tcpx", "gpus=8", "backend.gke_networks=[a,b,c,d]", "backend.host_network=true")),
        ("JC4101", ("network=slingshot", "gpus=8", "nodes=2")),
        ("JC4513", ("backend.extra.Deployment.spec.replicas=1",)),
        ("JC4600", ("backend.extra.Pod.spec.subdomain=x",)),
        ("JC4515", ("env.API_KEY=abc",)),
        ("JC4540", ("backend.extra.Pod.spec.nodez=1",)),
        ("JC4540", ("backend.extra.Pod.spec.dnsPolicy=clusterfirst",)),
        ("JC4540", ("backend.extra.Pod.spec.containers.node.imagePullPolicy=always",)),
        ("JC4540", ("backend.extra.Pod.spec.priority=high",)),
        ("JC4540", ("backend.extra.Pod.spec.schedulerName=1.50",)),
        ("JC4540", ("backend.extra.Pod.spec.tolerations=x",)),
        ("JC4540", ("backend.extra.Pod.spec.tolerations={a: {key: b}}",)),
        ("JC4540", ("backend.extra.Pod.spec.tolerations=[{key: a, effect: NoSched}]",)),
        ("JC4540", ("backend.extra.Pod.metadata=x",)),
        ("JC4540", ("backend.extra.Job.spec.activeDeadlineSecond=5",)),
        ("JC4540", ("backend.extra.Service.spec.type=External",)),
        (
            "JC4540",
            (
                "backend.flavor=jobset",
                "backend.extra.JobSet.spec.replicatedJobs.node.template.spec.managedby=x",
            ),
        ),
        *(
            ("JC4540", (f"backend.flavor={flavor}", f"backend.extra.{word}"))
            for flavor, word in (
                ("job", "Job.sepc.suspend=false"),
                ("jobset", "JobSet.spec.startupPolicies.startupPolicyOrder=InOrder"),
                ("jobset", "JobSet.spec.startupPolicy.startupPolicyOrder=Ordered"),
                ("jobset", "JobSet.spec.ttlSecondsAfterFinished=soon"),
                ("jobset", "JobSet.spec.replicatedJobs.node.groupname=x"),
                ("trainjob", "TrainJob.spec.manageBy=x"),
                ("trainjob", "TrainingRuntime.spec.podGroupPolicy.volcanoes={}"),
                ("trainjob", "TrainingRuntime.spec.template.spec.coordinator.podIndex=first"),
            )
        ),
        *(
            ("JC4522", (f"backend.flavor={flavor}", f"backend.extra.{path}.suspend=true"))
            for flavor, path in (("jobset", "JobSet.spec"), ("trainjob", "TrainJob.spec"))
        ),
        (
            "JC4600",
            ("backend.flavor=trainjob", "backend.extra.TrainJob.spec.runtimePatches=[{manager: example.org/a}]"),
        ),
        ("JC1202", ("backend.gpu_resource=nvidia.com/gpus",)),
        ("JC4504", ("image=docker://x",)),
        ("JC4504", ("backend.namespace=a.b",)),
        ("JC4504", ("container.workdir=here",)),
        ("JC4515", ("env.DB='postgres://me:pw@db/x'",)),
        ("JC4515", ("backend.extra.Pod.spec.containers.node.env.AWS_SECRET_ACCESS_KEY.value=abc",)),
        *(
            (code, (f"backend.extra.{word}",))
            for code, word in (
                ("JC4540", "Pod.spec.containers.node.env=[x]"),
                ("JC4540", "Pod.spec.initContainers.a={image: x, restartPolicy: always}"),
                ("JC4540", "Pod.spec.securityContext.fsGroupChangePolicy=Sometimes"),
                ("JC4540", "Service.spec.sessionAffinity=ip"),
                ("JC4522", "Pod.spec.hostPID=true"),
                ("JC4522", "Pod.spec.shareProcessNamespace=true"),
                ("JC4522", "Pod.spec.nodeName=node1"),
                ("JC4522", "Pod.spec.activeDeadlineSeconds=60"),
                ("JC4522", "Pod.spec.dnsPolicy=Default"),
                ("JC4522", "Job.spec.suspend=true"),
                ("JC4600", "Job.spec.activeDeadlineSeconds=60"),
                ("JC4600", "Pod.spec.containers.node.restartPolicy=Never"),
                ("JC2006", "Pod.spec.containers.node.env.WORLD_SIZE.value=8"),
                ("JC2006", "Pod.spec.containers.node.env.MASTER_ADDR.value=a"),
                ("JC4550", "Pod.spec.initContainers.a={command: [x]}"),
                ("JC4550", "Pod.spec.initContainers.My_C={image: x}"),
                ("JC4550", "Pod.spec.containers.side={image: Upper/x}"),
                ("JC4550", "Pod.spec.containers.node.resources.limits={nvidia.com/gpus: 8}"),
                ("JC4550", "Pod.spec.containers.node.resources.limits={gpu: 1}"),
                ("JC4550", "Pod.spec.containers.node.resources.limits={ephemeral-storage: 64GB}"),
                ("JC4550", "Pod.spec.containers.node.volumeMounts.nov={mountPath: /x}"),
                ("JC4550", "Pod.spec.volumes.v={}"),
                ("JC4550", "Pod.spec.volumes.v={emptyDir: {medium: memory}}"),
                ("JC4550", "Pod.spec.nodeSelector.pool='a b'"),
                ("JC4550", "Pod.spec.priorityClassName=High"),
                ("JC4550", "Job.metadata.labels.team='a b'"),
                ("JC4550", "Job.spec.ttlSecondsAfterFinished=-1"),
                ("JC4550", "Service.spec.ports=[{port: 99999}]"),
            )
        ),
    ],
)
def test_what_a_cluster_would_refuse_late_is_refused_now(code: str, words: tuple[str, ...]) -> None:
    assert code in codes(*words)


@pytest.mark.parametrize(("shm", "hint"), [("2KiB", "mem=4KiB"), ("4GiB", "mem=8GiB"), ("3MiB", "mem=6MiB")])
def test_the_memory_that_is_proposed_is_enough(shm: str, hint: str) -> None:
    with pytest.raises(CompileError) as refused:
        compile_files(f"shm={shm}", "mem=1KiB")
    assert [(d.code, d.hint) for d in refused.value.diagnostics] == [("JC4508", hint)]
    assert compile_files(f"shm={shm}", hint)


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
        return [d.code for d in fields.check({"Pod": {"spec": frozen(yaml.safe_load(form % value))}})]

    assert (found(right), found(wrong)) == ([], ["JC4550"])


def frozen(tree: Any) -> Any:
    """Lists as tuples, as the converter has them."""
    if isinstance(tree, dict):
        return {key: frozen(value) for key, value in tree.items()}
    return tuple(map(frozen, tree)) if isinstance(tree, list) else tree
