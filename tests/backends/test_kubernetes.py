"""Backend kubernetes without a cluster: its files match real schemas and each other, and express what was requested."""

from __future__ import annotations

import base64
import bz2
import copy
import io
import json
import re
import runpy
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobc.backends.kubernetes import objects
from jobc.backends.kubernetes.config_map import add_config_map
from jobc.backends.kubernetes.names import LONGEST, longest_pod_name
from jobc.backends.kubernetes.pod import parse_toleration, to_kubernetes_quantity
from jobc.compiler.emit.artifact import Artifact
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.compiler.testing.golden import read_golden_case
from jobc.tests.backends.manifests import PLAIN, codes, compile_files, lone_pod, pod_specs, strictly
from jobc.tests.podrunner.controller import condition, has
from jobc.tests.podrunner.jobset import look_at_job_set, look_at_train_job
from jobc.tests.podrunner.schema import problem
from jobc.tests.podrunner.store import Store

GOLDEN = Path(__file__).parents[1] / "golden" / "kubernetes"
FILES = sorted(GOLDEN.glob("*/expected/*.yaml"))
MANIFESTS = [file for file in FILES if file.name == "job.yaml"]
MINORS = ("1.31.0", "1.34.0", "1.36.0", "1.37.0")


def documents(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text()))


@pytest.mark.parametrize("version", MINORS)
def test_every_manifest_fits_the_strict_schema(version: str) -> None:
    assert len(MANIFESTS) >= 8
    for file in MANIFESTS:
        for item in documents(file):
            assert strictly(item, version) == "", f"{file}: {item['kind']}"


@pytest.mark.parametrize("case", ["two_nodes", "jobset", "trainjob"])
def test_no_pod_has_the_variables_of_services(case: str) -> None:
    """A Service called master would set MASTER_PORT to tcp://…; Kubernetes links them unless a pod says false."""
    files = {file.path: file.text for file in compile_job(read_golden_case(GOLDEN / case)).artifacts}
    pods = [pod for item in (*yaml.safe_load_all(files["job.yaml"]), lone_pod(files)) for pod in pod_specs(item)]
    assert len(pods) == 2 and all(pod.get("enableServiceLinks") is False for pod in pods)


@pytest.mark.parametrize("flavor", ["job", "jobset", "trainjob"])
def test_kubectl_apply_creates_every_object_in_the_namespace_of_the_job(flavor: str) -> None:
    for words, namespace in ((["backend.namespace=123"], "123"), ([], None)):
        files = compile_files(f"backend.flavor={flavor}", *words)
        objects = list(yaml.safe_load_all(files["job.yaml"]))
        assert {item["metadata"].get("namespace") for item in objects} == {namespace}


@pytest.mark.parametrize("case", ["train_on_gpus", "jobset", "trainjob"])
def test_a_field_or_a_kind_that_is_none_is_noticed(case: str) -> None:
    for item in documents(GOLDEN / case / "expected" / "job.yaml")[:-1]:  # without the ConfigMap
        unknown = copy.deepcopy(item)
        unknown["spec"]["nodez"] = 1
        assert strictly(unknown, "1.36.0")
        assert "no matches for kind" in problem({**item, "kind": "Jobb"})
        assert problem({**item, "metadata": {**item["metadata"], "annotations": {"jobc/owner": 3}}})
        for pod in pod_specs(item):
            pod["containers"][0]["imagePolicy"] = "Always"
            assert strictly(item, "1.36.0")


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: f"{file.parts[-3]}-{file.name}")
def test_names_within_a_manifest_fit_together(file: Path) -> None:
    for pod in (spec for item in documents(file) for spec in pod_specs(item)):
        (container,) = pod["containers"]
        volumes = [volume["name"] for volume in pod["volumes"]]
        everyone = [container, *pod.get("initContainers", ())]
        mounts = {mount["name"] for each in everyone for mount in each["volumeMounts"]}
        assert mounts == set(volumes) and len(set(volumes)) == len(volumes)
        limits, requests = (container["resources"].get(kind, {}) for kind in ("limits", "requests"))
        assert limits.items() <= requests.items()
    items = {item["kind"]: item for item in documents(file)}
    if "Service" in items:
        job, service = items["Job"]["spec"], items["Service"]
        labels = job["template"]["metadata"]["labels"]
        name = service["metadata"]["name"]
        assert service["spec"]["selector"].items() <= labels.items()
        assert job["template"]["spec"]["subdomain"] == name == items["Job"]["metadata"]["name"]
        assert job["completions"] == job["parallelism"]


@pytest.mark.parametrize("case", ["train_on_gpus", "two_nodes"])
def test_job_yaml_has_every_file_that_a_pod_needs(case: str) -> None:
    compiled = compile_job(read_golden_case(GOLDEN / case))
    contents = {file.path: file.content for file in compiled.artifacts}
    items = {item["kind"]: item for item in yaml.safe_load_all(contents["job.yaml"])}
    config = items["ConfigMap"]
    assert config["immutable"] is True and strictly(config, "1.36.0") == ""
    assert config["metadata"]["name"] == items["Job"]["metadata"]["name"]
    assert {"launch.sh", "start.py", ".jobc--job.json"} <= {*config["data"]}
    assert ("train.json" in config["data"]) == (case == "train_on_gpus")
    assert not {"launch.sh", "train.json"} & {*contents}, "one copy of each"
    of_pods = json.loads(config["data"][".jobc--job.json"])
    settings = json.loads(contents[".jobc/job.json"])
    assert of_pods.items() <= settings.items() and "node" in of_pods and "checksums" not in of_pods
    name = config["metadata"]["name"]
    assert of_pods["head"] == f"{name}-0.{name}"
    program = bz2.decompress(base64.b64decode(config["binaryData"]["jobctl.bz2"]))
    names = zipfile.ZipFile(io.BytesIO(program)).namelist()
    assert {"jobc_engine/join.py", "jobc_runtime/supervisor/launch.py"} <= {*names}
    assert "jobc_runtime/verbs/submit.py" not in names


def test_the_manifest_of_an_own_script_is_small_enough_for_kubectl_apply() -> None:
    """`kubectl apply` keeps the object in an annotation; Kubernetes allows 256 KiB of annotations."""
    compiled = compile_job(CompileRequest((*PLAIN, "nodes=2", "launcher=torchrun"), ("train.py",)))
    assert [len(file.content) < 240 << 10 for file in compiled.artifacts if file.path == "job.yaml"] == [True]


AWKWARD = ["a\n", " a\n", "a", "a\n\n", "\ta\n", "a \n b\n", "a\x07\n", "\n", "a: b\n# c\n", "é\u2028\n", ""]


@pytest.mark.parametrize("text", AWKWARD)
def test_each_text_is_in_the_config_map_as_it_is(text: str) -> None:
    settings = Artifact(".jobc/job.json", '{"namespace": ""}\n')
    made = add_config_map(Artifact("job.yaml", "a: 1\n"), "x", [Artifact("lib/launch.sh", text)], settings, b"")
    assert [*yaml.safe_load_all(made.text)][1]["data"]["lib--launch.sh"] == text


def test_another_plan_has_another_name_and_the_same_one_the_same() -> None:
    def name(*words: str) -> str:
        return str(yaml.safe_load(compile_files(*words)["job.yaml"].split("---")[0])["metadata"]["name"])

    assert name("nodes=2") == name("nodes=2")
    assert len({name(), name("nodes=2"), name("env.A=1"), name("optim.lr=0.5"), name("backend.host_network=true")}) == 5


@pytest.mark.parametrize("flavor", ["job", "jobset", "trainjob"])
def test_the_longest_name_that_is_taken_fits_with_every_suffix(flavor: str) -> None:
    longest = LONGEST - len(longest_pod_name("-12345678", flavor, 16))
    compile_files(f"name={'n' * longest}", "nodes=16", f"backend.flavor={flavor}")
    assert codes(f"name={'n' * (longest + 1)}", "nodes=16", f"backend.flavor={flavor}") == ["JC4501"]


def test_retries_count_pods_for_a_job_and_attempts_for_a_jobset() -> None:
    job = yaml.safe_load_all(compile_files("nodes=4", "lifecycle.max_requeues=3")["job.yaml"])
    assert [item["spec"]["backoffLimit"] for item in job if item["kind"] == "Job"] == [12]
    job_set, _ = yaml.safe_load_all(compile_files("nodes=4", "backend.flavor=jobset")["job.yaml"])
    assert job_set["spec"]["failurePolicy"]["maxRestarts"] == 3
    assert job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] == 0
    assert objects.AGAIN == [69, 75]


@pytest.mark.parametrize(("reason", "starts"), [("PodFailurePolicy", 1), ("BackoffLimitExceeded", 3)])
def test_a_trainjob_starts_again_max_requeues_times_but_not_after_a_permanent_error(reason: str, starts: int) -> None:
    """On the stand-ins for its controllers. PodFailurePolicy: a pod's exit code was not in objects.AGAIN"""
    words = ("nodes=4", "backend.flavor=trainjob", "lifecycle.max_requeues=2")
    runtime, train_job, _ = yaml.safe_load_all(compile_files(*words)["job.yaml"])
    store, name, started = Store(), train_job["metadata"]["name"], 0
    with store.changed:
        for plural, item in (("trainingruntimes", runtime), ("trainjobs", train_job)):
            item["metadata"]["namespace"] = "ns"
            store.add(plural, item)
        while not has(train_job, "Failed"):
            look_at_train_job(store, train_job)
            look_at_job_set(store, store.objects["jobsets", name])
            for job in list(store.all("jobs")):
                assert job["spec"]["podFailurePolicy"]["rules"][1]["onExitCodes"]["values"] == objects.AGAIN
                if "deletionTimestamp" in job["metadata"]:
                    store.remove("jobs", job["metadata"]["name"])
                elif not has(job, "Failed"):
                    started += 1
                    condition(job, "Failed", reason)
    assert started == starts


HOST_FOLDER = "mounts=[{kind: host, source: /mnt/runs, target: /shared, read_only: false}]"


def test_runs_in_a_folder_of_several_nodes_have_a_word_about_it() -> None:
    def told(*words: str) -> bool:
        return "all nodes must share this file system" in compile_files(*words)["job.yaml"]

    assert told("nodes=2", HOST_FOLDER)
    assert not told("nodes=1", HOST_FOLDER) and not told("nodes=2")


@pytest.mark.parametrize(
    ("words", "selector", "hosts"),
    [
        (("hosts=[a,b]", HOST_FOLDER), None, [("In", ["a", "b"])]),
        (("hosts=[a,b]",), None, []),
        (("queue.exclude=[c]", "backend.affinity=zone"), None, [("NotIn", ["c"])]),
        (('backend.node_selector=["pool=a3"]', "gpu_type=NVIDIA-H200"), {"pool": "a3"}, []),
        (('backend.node_selector=["pool=a3"]', "gpu_type=H100", "hosts=[a,b]"), {"pool": "a3"}, []),
        (("gpu_type=NVIDIA-H200", "backend.extra.Pod.spec.nodeSelector.pool=a3"), {"pool": "a3"}, []),
        (("backend.extra.Pod.spec.nodeSelector={nvidia.com/gpu.product: A10}",), None, []),
    ],
)
def test_the_pod_beside_a_job_is_where_its_folders_are_and_waits_for_no_gpu(
    words: tuple[str, ...], selector: dict[str, str] | None, hosts: list[tuple[str, list[str]]]
) -> None:
    pod = lone_pod(compile_files("nodes=2", "gpus=8", *words))
    assert strictly(pod, "1.36.0") == ""
    spec = pod["spec"]
    assert spec.get("nodeSelector") == selector
    assert {*spec.get("affinity", {})} == ({"nodeAffinity"} if hosts else set())
    required = (
        spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    )
    rules = [rule for term in required.get("nodeSelectorTerms", ()) for rule in term["matchExpressions"]]
    assert [(rule["operator"], rule["values"]) for rule in rules] == hosts
    assert spec["containers"][0]["resources"] == {}


def test_two_pods_on_the_hosts_network_are_on_two_nodes() -> None:
    def apart(*words: str) -> list[str]:
        spec = next(pod_specs([*yaml.safe_load_all(compile_files("nodes=2", *words)["job.yaml"])]))
        rules = spec.get("affinity", {}).get("podAntiAffinity", {})
        return [rule["topologyKey"] for rule in rules.get("requiredDuringSchedulingIgnoredDuringExecution", ())]

    assert apart("backend.host_network=true") == ["kubernetes.io/hostname"]
    assert apart("backend.host_network=true", "backend.anti_affinity=rack") == ["rack"]
    assert apart() == []


@pytest.mark.parametrize("flavor", ["job", "jobset"])
def test_what_is_kept_for_no_time_goes_at_once_and_null_stays(flavor: str) -> None:
    def kept(*words: str) -> list[int]:
        files = compile_files(f"backend.flavor={flavor}", *words)
        specs = (item["spec"] for item in yaml.safe_load_all(files["job.yaml"]) if "spec" in item)
        return [spec["ttlSecondsAfterFinished"] for spec in specs if "ttlSecondsAfterFinished" in spec]

    assert (kept(), kept("lifecycle.keep=0s"), kept("lifecycle.keep=1h")) == ([], [0], [3600])


def test_the_fields_that_are_known_are_those_of_the_schemas() -> None:
    tool = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "kubernetes_fields.py"))
    assert tool["FILE"].read_text() == tool["made"](), "python tools/kubernetes_fields.py"


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
                "TrainJob.spec.managedBy=trainer.kubeflow.org/trainjob-controller",
            ),
        ),
    ],
)
def test_fields_of_the_other_flavors_are_taken_and_fit_their_models(flavor: str, words: tuple[str, ...]) -> None:
    files = compile_files("nodes=2", f"backend.flavor={flavor}", *(f"backend.extra.{word}" for word in words))
    assert [strictly(item, "1.36.0") for item in yaml.safe_load_all(files["job.yaml"])] == [""] * (
        2 + (flavor != "jobset")
    )


def test_what_a_machine_of_aws_has_and_the_bound_of_shared_memory_need_not_be_typed() -> None:
    files = compile_files("nodes=2", "network=efa", "gpus=8", "gpu_type=NVIDIA-H100-80GB-HBM3")
    spec = next(pod_specs([*yaml.safe_load_all(files["job.yaml"])]))
    assert spec["containers"][0]["resources"]["limits"]["vpc.amazonaws.com/efa"] == "32"
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}} in spec["volumes"]


def test_code_on_a_volume_is_shared_code_by_another_name() -> None:
    volume, shared = (compile_files(f"code={word}", "code.root=/shared/a") for word in ("volume", "shared"))
    differ = [path for path, text in volume.items() if text != shared[path]]
    assert differ == [".jobc/job.json"], "it records the request"


def test_items_by_their_names_become_a_list_and_numbers_text_where_the_api_has_text() -> None:
    words = (
        "Pod.spec.initContainers.fetch={image: x, command: [sleep, 1], env: {A: {value: true}}}",
        "Pod.spec.containers.side={image: x, ports: {web: {containerPort: 80}}}",
        "Pod.spec.initContainers.none=null",
    )
    files = compile_files(*(f"backend.extra.{word}" for word in words), "backend.extra.Job.metadata.labels.team=1")
    _, job, _ = yaml.safe_load_all(files["job.yaml"])
    spec, env = job["spec"]["template"]["spec"], [{"name": "A", "value": "true"}]
    assert spec["initContainers"] == [{"name": "fetch", "image": "x", "command": ["sleep", "1"], "env": env}]
    assert spec["containers"][1] == {"name": "side", "image": "x", "ports": [{"name": "web", "containerPort": 80}]}
    assert job["metadata"]["labels"]["team"] == "1"
    assert strictly(job, "1.36.0") == ""


@pytest.mark.parametrize("kind", ["containers", "initContainers", "volumes"])
def test_the_line_of_a_name_that_extra_adds_is_explained(kind: str) -> None:
    """containers has items, which are merged by name; the other two may have none, and are made of a mapping."""
    item = "{emptyDir: {sizeLimit: 1Gi}}" if kind == "volumes" else "{image: x, env: {A: {value: 1}}}"
    made = compile_job(CompileRequest((*PLAIN, f"backend.extra.Pod.spec.{kind}.own={item}")))
    rows = made.source_map.files["job.yaml"]
    text = next(file.text for file in made.artifacts if file.path == "job.yaml").splitlines()
    for name in ("own", *(["A"] if kind != "volumes" else [])):
        (at,) = (i for i, row in enumerate(text) if re.search(rf"\bname: {name}\b", row))
        found = made.source_map.spec_keys(rows[at][0])
        assert found and all(key.startswith(f"backend.extra.Pod.spec.{kind}.own.") for key in found), found


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
    made = compile_job(CompileRequest((*PLAIN, "nodes=2", "gpus=8", *words)))
    texts = {file.path: file.text for file in made.artifacts}
    spec = next(pod_specs([*yaml.safe_load_all(texts["job.yaml"])]))
    rules = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = [rule for term in rules.get("nodeSelectorTerms", ()) for rule in term["matchExpressions"]]
    asked = {rule["key"]: {*rule["values"]} for rule in terms} | {
        key: {value} for key, value in spec.get("nodeSelector", {}).items()
    }
    assert asked == {label: values}


def test_sizes_and_taints_are_spelt_as_kubernetes_spells_them() -> None:
    assert [to_kubernetes_quantity(n) for n in (2**30, 3 * 2**29, 1024, 1000)] == ["1Gi", "1536Mi", "1Ki", "1000"]
    assert parse_toleration("a/b:NoSchedule") == {"key": "a/b", "operator": "Exists", "effect": "NoSchedule"}
    assert parse_toleration("a=b") == {"key": "a", "operator": "Equal", "value": "b"}


@pytest.mark.parametrize(
    ("flavor", "places"),
    [("job", ["completions"]), ("jobset", ["completions"]), ("trainjob", ["numNodes", "completions", "numNodes"])],
)
def test_the_number_of_nodes_says_that_an_edit_of_it_is_not_enough(flavor: str, places: list[str]) -> None:
    lines = compile_files("nodes=4", f"backend.flavor={flavor}")["job.yaml"].splitlines()
    below = [lines[i + 1].split(":")[0].strip() for i, line in enumerate(lines) if "`jobc nodes=N`" in line]
    assert below == places


@pytest.mark.parametrize("words", [("code=snapshot",), ("mounts=[]", "storage.run=node", "storage.root=runs")])
def test_a_volume_of_the_user_is_added_to_those_of_the_job(words: tuple[str, ...]) -> None:
    extra = (
        "backend.extra.Pod.spec.volumes.own.emptyDir={}",
        "backend.extra.Pod.spec.containers.node.volumeMounts.own.mountPath=/own",
    )
    request = CompileRequest((*PLAIN, *words, *extra), ("train.py",))
    files = {file.path: file.text for file in compile_job(request).artifacts}
    (pod,) = (pod for item in yaml.safe_load_all(files["job.yaml"]) for pod in pod_specs(item))
    names = [volume["name"] for volume in pod["volumes"]]
    assert {"files", "artifact", "shm", "own"} <= {*names}
    assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == {*names}
