"""Backend kubernetes without a cluster: what it rejects or warns about, with hints that compile; and near misses."""

import shlex
from dataclasses import replace

import pytest

from jobc.backends.kubernetes.rules import devices
from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.compiler.plan.launch_plan import Topology
from jobc.tests.backends.manifests import PLAIN, codes, compile_files


def test_fields_of_every_shape_are_taken() -> None:
    for word in (
        "Pod.metadata.annotations={a: 1, b: true}", "Pod.spec.containers.node.env.A.value=1",
        "Pod.spec.tolerations=[{key: a, operator: Exists}]", "Pod.spec.schedulerName=null",
        "Pod.spec.containers.node.resources.limits.ephemeral-storage=5Gi", "Job.spec.manualSelector=false",
        "Pod.spec.containers.side={image: x, ports: [{containerPort: 80, protocol: TCP}]}",
        "Pod.spec.volumes.v={emptyDir: {medium: HugePages-2Mi, sizeLimit: 1.5Gi}}", "Pod.spec.volumes.w=null",
        "Pod.spec.initContainers.a={image: 'reg.example.org:5000/a/b__c:v1', volumeMounts: {shm: {mountPath: /x}}}",
        "Pod.spec.containers.node.resources.limits={hugepages-2Mi: 1Gi, example.com/nic: 2}",
        "Pod.spec.hostPID=false", "Job.spec.suspend=false", "Pod.spec.containers.node.env.NOT_RANK.value=1",
        "Pod.spec.initContainers.a={image: x, env: {RANK: {value: 0}}}", "Pod.spec.dnsPolicy=ClusterFirst",
    ):  # fmt: skip
        compile_files(f"backend.extra.{word}")


@pytest.mark.parametrize(("gpus", "nodes", "hint"), [(12, 2, "nodes=3 gpus=8"), (9, 2, "nodes=3 gpus=6"), (8, 2, None)])
def test_more_gpus_than_most_nodes_have_are_a_warning(gpus: int, nodes: int, hint: str | None) -> None:
    made = compile_job(CompileRequest((*PLAIN, f"gpus={gpus}", f"nodes={nodes}")))
    said = [(d.severity.value, d.hint) for d in made.diagnostics if d.code == "JC4505"]
    assert said == ([("warning", hint)] if hint else [])


@pytest.mark.parametrize(
    ("gpu_type", "usual", "most"),
    [
        ("H100", 8, 32), ("NVIDIA-H100-80GB-HBM3", 8, 32), ("nvidia-h100-mega-80gb", 8, 32), ("L4", 8, 32),
        ("A100", 8, 32), ("NVIDIA-A100-SXM4-80GB", 8, 32), ("NVIDIA-B200", 8, 8), ("AMD_Instinct_MI300X_OAM", 8, 8),
        ("GB200", 4, 4), ("GH200", 1, 4), ("P100", 4, 32), (None, 8, 32), ("X1", 8, 32),
    ],
)  # fmt: skip
def test_a_type_says_how_many_gpus_a_node_may_have(gpu_type: str | None, usual: int, most: int) -> None:
    made = compile_job(CompileRequest((*PLAIN, "gpus=1")))

    def said(count: int) -> list[str]:
        topology = Topology(1, count, count)
        resources = replace(made.plan.resources, gpu_type=gpu_type)
        plan = replace(made.plan, topology=topology, resources=resources)
        return [d.severity.value for d in devices.check_gpus_exceed_node(plan, made.options)]

    assert said(usual) == [] and said(most + 1) == ["error"]
    assert said(most) == (["warning"] if most > usual else [])


@pytest.mark.parametrize(
    "word",
    [
        "hostIPC=true", "containers.node.securityContext.privileged=true", "containers.side={image: x}",
        "initContainers.a={image: x, securityContext: {privileged: true}}",
        "containers.node.terminationMessagePolicy=File",
    ],
)  # fmt: skip
def test_what_hurts_others_than_the_job_is_a_warning(word: str) -> None:
    made = compile_job(CompileRequest((*PLAIN, f"backend.extra.Pod.spec.{word}")))
    assert [(d.code, d.severity.value) for d in made.diagnostics if d.code == "JC4522"] == [("JC4522", "warning")]


def test_what_looks_like_a_broken_promise_and_is_none_is_taken() -> None:
    for word in (
        "Pod.spec.containers.node.readinessProbe={exec: {command: ['true']}}", "Pod.spec.schedulerName=volcano",
        "Pod.spec.initContainers.side={image: x, restartPolicy: Always, livenessProbe: {tcpSocket: {port: 80}}}",
        "Pod.spec.containers.node.lifecycle.postStart.exec.command=['true']", "Pod.spec.os.name=linux",
        "Pod.spec.readinessGates=[{conditionType: a/b}]", "Pod.spec.schedulingGates=[]", "Pod.spec.hostUsers=false",
        "Job.spec.managedBy=kubernetes.io/job-controller", "Pod.spec.resources.limits.hugepages-2Mi=1Gi",
        "Service.spec.type=ClusterIP", "Pod.spec.containers.node.securityContext.privileged=false",
        "Pod.spec.preemptionPolicy=Never", "Pod.spec.automountServiceAccountToken=true",
        "Pod.spec={dnsPolicy: None, dnsConfig: {nameservers: [10.96.0.10], searches: [a.svc.cluster.local]}}",
        "Pod.spec.dnsPolicy=ClusterFirst", "Pod.spec.dnsPolicy=ClusterFirstWithHostNet", "Pod.spec.dnsPolicy=null",
        "Pod.metadata.annotations={cluster-autoscaler.kubernetes.io/safe-to-evict: false}",
        "Pod.spec.hostAliases=[{ip: 10.0.0.1, hostnames: [a]}]", "Pod.spec.containers.node.tty=true",
    ):  # fmt: skip
        made = compile_job(CompileRequest((*PLAIN, f"backend.extra.{word}")))
        assert not [d for d in made.diagnostics if d.code == "JC4522"], word


@pytest.mark.parametrize("policy", ["Default", "ClusterFirst", "null", "None", "ClusterFirstWithHostNet"])
def test_on_the_hosts_network_one_policy_knows_the_name_of_node_0(policy: str) -> None:
    words = ("nodes=2", "backend.host_network=true", f"backend.extra.Pod.spec.dnsPolicy={policy}")
    if policy == "ClusterFirstWithHostNet":
        assert compile_files(*words)
    else:
        assert codes(*words) == ["JC4522"]


def test_how_long_a_trainjob_is_kept_is_no_field_of_it_and_that_is_said() -> None:
    words = (*PLAIN, "lifecycle.keep=1h", "backend.flavor=trainjob")
    made = compile_job(CompileRequest(words))
    assert [(d.code, d.key) for d in made.diagnostics] == [("JC4102", "lifecycle.keep")]
    texts = {file.path: file.text for file in made.artifacts}
    assert "ttlSecondsAfterFinished" not in texts["job.yaml"]
    (note,) = made.diagnostics
    kept = compile_job(CompileRequest((*words, *note.hint.split(", or ")[:1])))
    assert not kept.diagnostics, "a JobSet has it"


def test_the_hints_for_text_that_kubernetes_does_not_take_compile() -> None:
    words = (
        "queue.name=Team_A", "labels.team=audio team", "labels.x_=y", "image=docker://Some/X:V1", "hosts=[A_1,b]",
        "backend.node_selector=['a b=c','d']", "backend.namespace=-x.y", "backend.gpu_label=a b",
        "backend.affinity=A_B/c d", "backend.tolerations=['dedicated=ml:Never','a b']", "container.workdir=here",
        "backend.image_pull_secrets=[A_b]", "backend.gpu_labels.H100=['a b',c]",
    )  # fmt: skip
    with pytest.raises(CompileError) as refused:
        compile_job(CompileRequest((*PLAIN, *words)))
    found = [d for d in refused.value.diagnostics if d.code == "JC4504"]
    assert len(found) == len(refused.value.diagnostics) == 15, "two items of two lists are wrong"
    hints = {word for d in found for word in shlex.split(d.hint.removesuffix(", instead"))}
    assert len(hints) == len(words)
    compile_job(CompileRequest((*PLAIN, *hints)))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (('backend.node_selector=["a=b","a=c"]',), "backend.node_selector.0"),
        (('backend.node_selector=["x=y","nvidia.com/gpu.product=A10"]', "gpu_type=H200", "gpus=8"), "gpu_type"),
        (('backend.node_selector=["card=A10"]', "gpu_type=H200", "gpus=8", "backend.gpu_label=card"), "gpu_type"),
    ],
)
def test_a_node_label_of_two_values_is_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(CompileError) as refused:
        compile_files(*words)
    (found,) = refused.value.diagnostics
    assert found.code == "JC4504" and f"is already set by {said}" in found.title
    assert compile_files(*words[1:], *shlex.split(found.hint))


def test_one_value_of_each_node_label_is_taken() -> None:
    assert compile_files('backend.node_selector=["a=b","c=b"]', "gpu_type=H200", "gpus=8")
    assert compile_files('backend.node_selector=["nvidia.com/gpu.product=A10"]', "gpus=1")


@pytest.mark.parametrize(("key", "most"), [("queue.name", 63), ("queue.priority", 253), ("claim", 253)])
def test_a_name_may_be_as_long_as_what_holds_it(key: str, most: int) -> None:
    def word(size: int) -> str:
        mount = f"mounts=[{{kind: claim, source: {'n' * size}, target: /shared, read_only: false}}]"
        return mount if key == "claim" else f"{key}={'n' * size}"

    assert compile_files(word(most))
    assert codes(word(most + 1)) == ["JC4503" if key == "claim" else "JC4504"]


def second_mount(target: str) -> str:
    shared = "{kind: claim, source: shared, target: /shared, read_only: false}"
    return f"mounts=[{shared}, {{kind: claim, source: b, target: {target}, read_only: false}}]"


@pytest.mark.parametrize(
    "target",
    [
        "/", "//", "/usr", "/usr/bin", "//usr/bin/", "/usr/lib/x86_64-linux-gnu", "/usr/local", "/usr/local/lib/",
        "/bin", "/sbin/x", "/lib64", "/proc/x", "/sys/fs", "/dev/shm", "/dev/shm/x", "/etc", "/etc/../bin", "/a/..",
        "/jobc", "/jobc/x", "/jobc/artifact/lib",
    ],
)  # fmt: skip
def test_nothing_is_mounted_over_what_the_image_or_jobc_needs(target: str) -> None:
    assert codes(second_mount(target)) == ["JC4503"]


def test_beside_what_the_image_and_jobc_need_there_is_room() -> None:
    for target in (
        "/usr/local/nvidia", "/usr/local/lib/x", "/usr/share/fonts", "/usr/src/app", "/etc/ssl/certs", "/usr2", "/devs",
        "/jobc-data", "/home/proc", "/data/../models", "/opt/bin", "/library", "/tmp/usr/bin",
    ):  # fmt: skip
        assert compile_files(second_mount(target)), target


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("JC2009", ("image=null", "backend.default_image=null")),
        ("JC4501", ("name=" + "n" * 50,)),
        ("JC4502", ("storage.root=runs", "storage.run=shared")),
        ("JC4502", ("mounts=[{kind: claim, source: s, target: /shared, read_only: true}]",)),
        ("JC4502", ("mounts=[{kind: empty, source: '', target: /shared, read_only: false}]",)),
        ("JC4503", ("mounts=[{kind: bucket, source: s, target: /shared, read_only: false}]",)),
        ("JC4503", ("mounts=[{kind: nfs, source: nas, target: /shared, read_only: false}]",)),
        ("JC4503", ("mounts=[{kind: claim, source: s, target: /usr, read_only: false}]", "storage.root=/usr/runs")),
        (
            "JC4503",
            (
                "mounts=[{kind: claim, source: a, target: /shared, read_only: false},"
                " {kind: claim, source: b, target: /shared/, read_only: false}]",
            ),
        ),
        ("JC4504", ("queue.name=Team_A",)),
        ("JC4504", ("labels.team=audio team",)),
        ("JC4504", ("image=Upper/X:1",)),
        ("JC4504", ('backend.node_selector=["a b=c"]',)),
        ("JC4504", ("backend.namespace=-x",)),
        ("JC4505", ("gpus=33",)),
        ("JC4505", ("gpus=12", "gpu_type=B200")),
        ("JC4506", ("secrets.A=k8s:Bad_Name/key",)),
        ("JC4600", ("gpu_type=a", "backend.gpu_label=card", "backend.extra.Pod.spec.nodeSelector.card=b")),
        ("JC4600", ("hosts=[a]", "backend.extra.Pod.spec.affinity.nodeAffinity=null")),
        ("JC4600", ("storage.run=node", "backend.extra.Pod.spec.volumes.runs.emptyDir.medium=Memory")),
        ("JC4524", ("backend.requests={hugepages-2Mi: 1Gi}",)),
        ("JC4524", ("backend.requests={cpu: -1}",)),
        ("JC4600", ("cpus=8", "backend.extra.Pod.spec.containers.node.resources.requests.cpu=1")),
        ("JC4600", ("queue.priority=high", "backend.extra.Pod.spec.priorityClassName=low")),
        ("JC4600", ("queue.name=a", "backend.extra={Job: {metadata: {labels: {kueue.x-k8s.io/queue-name: b}}}}")),
        ("JC4600", ("labels.team=a", "backend.extra.Job.metadata.labels.team=b")),
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
        ("JC4511", ("backend.deadline=0s",)),
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
            ("JC4522", (f"backend.flavor={flavor}", f"backend.extra.{path}.{word}"))
            for flavor, path in (("jobset", "JobSet.spec"), ("trainjob", "TrainJob.spec"))
            for word in ("suspend=true", "managedBy=a/b")
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
                ("JC4522", "Pod.spec.dnsPolicy=None"),
                ("JC4522", "Pod.spec={dnsPolicy: None, dnsConfig: {searches: [a.svc.cluster.local]}}"),
                ("JC4522", "Job.spec.suspend=true"),
                ("JC4522", "Job.spec.managedBy=kueue.x-k8s.io/multikueue"),
                ("JC4522", "Job.spec.manualSelector=true"),
                ("JC4522", "Job.metadata.finalizers=[a/b]"),
                ("JC4522", "Job.metadata.uid=abc"),
                ("JC4522", "Service.spec.type=NodePort"),
                ("JC4522", "Pod.spec.schedulingGates=[{name: a/b}]"),
                ("JC4522", "Pod.spec.os.name=windows"),
                ("JC4522", "Pod.spec.priority=1000"),
                ("JC4522", "Pod.spec.ephemeralContainers=[{name: a, image: x}]"),
                ("JC4522", "Pod.spec.containers.node.livenessProbe={exec: {command: ['true']}}"),
                ("JC4522", "Pod.spec.containers.node.startupProbe={tcpSocket: {port: 80}}"),
                ("JC4522", "Pod.spec.containers.node.lifecycle.preStop.sleep.seconds=3"),
                ("JC4522", "Pod.spec.containers.node.lifecycle.stopSignal=SIGKILL"),
                ("JC4600", "Pod.spec.hostnameOverride=a"),
                ("JC4600", "Pod.spec.resources.limits.memory=1Gi"),
                ("JC4600", "Pod.metadata.labels.job-name=a"),
                ("JC4600", "Pod.metadata.annotations={batch.kubernetes.io/job-completion-index: 1}"),
                ("JC4600", "Job.spec.maxFailedIndexes=1"),
                ("JC4600", "Job.spec.ttlSecondsAfterFinished=60"),
                ("JC4600", "Service.spec.clusterIPs=[10.0.0.1]"),
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
