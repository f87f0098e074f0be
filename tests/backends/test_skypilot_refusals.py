"""Backend skypilot without SkyPilot: what it rejects, warns about or ignores with a note; and near misses."""

from __future__ import annotations

import json

import pytest

from jobc.backends._shared.gpus import GPUS, SOLD, max_gpus_in_cloud
from jobc.compiler.diagnostics.diagnostic import CompileError, Severity
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.backends.sky_jobs import PLAIN, SHARED, any_of


def refused(*words: str, severity: Severity = Severity.ERROR) -> list[str]:
    try:
        found = compile_job(CompileRequest(words)).diagnostics
    except CompileError as error:
        found = error.diagnostics
    return [diagnostic.code for diagnostic in found if diagnostic.severity is severity]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("JC4701", (*PLAIN, "backend.infra=awss")),
        ("JC4701", (*PLAIN, "backend.infra=aws/a/b/c")),
        ("JC4701", (*PLAIN, "backend.any_of=[{infra: moon}]")),
        ("JC4702", (*PLAIN, "backend.infra=k8s/prod", "backend.clusters=[dev]")),
        ("JC4703", (*PLAIN, "gpus=8", "backend.gpu_types=[]")),
        ("JC4704", (*PLAIN, "gpus=8", "gpu_type=ZZ9000")),
        ("JC4704", (*PLAIN, "gpus=8", "gpu_type=h100")),
        ("JC4704", (*SHARED, "gpus=1", "gpu_type=H100:0.5")),
        ("JC4705", (*PLAIN, "gpus=16", "gpu_type=H100")),
        ("JC4706", ("backend=skypilot", "nodes=2", "storage.run=shared")),
        ("JC4706", ("backend=skypilot", "nodes=2", "backend.infra=slurm/bed")),
        ("JC4706", ("backend=skypilot", "nodes=2", "storage.root=/shared/runs")),
        ("JC4707", (*PLAIN, "backend.managed=true")),
        ("JC4707", (*PLAIN, "nodes=2", "lifecycle.max_restarts=1")),
        ("JC4708", (*PLAIN, "mounts=[{kind: claim, source: a, target: /a, read_only: false}]")),
        (
            "JC4708",
            (
                *PLAIN,
                "container=pod",
                "python=image",
                "image=x",
                "mounts=[{kind: host, source: /a, target: /a, read_only: false}]",
                "backend.infra=aws",
            ),
        ),
        ("JC4708", (*PLAIN, "mounts=[{kind: bucket, source: a, target: /b, read_only: false}]")),
        ("JC4708", (*PLAIN, "mounts=[{kind: volume, source: a, target: /b, read_only: true}]")),
        ("JC4709", (*PLAIN, "backend.file_mounts={/data: data}")),
        ("JC4709", (*PLAIN, "backend.extra={file_mounts: {/data: {source: data, mode: COPY}}}")),
        ("JC4709", (*PLAIN, "backend.extra={file_mounts: {/data: 3}}")),
        ("JC4709", (*PLAIN, "backend.file_mounts={/data: {source: [/a, b], store: s3}}")),
        ("JC4709", (*PLAIN, 'backend.file_mounts={/data: {source: ["s3://a"]}}')),
        ("JC4718", (*PLAIN, "backend.file_mounts={/data: {source: 3}}")),
        ("JC4718", (*PLAIN, "backend.file_mounts={/data: {source: []}}")),
        ("JC4718", (*PLAIN, "backend.file_mounts={/data: {source: [1]}}")),
        ("JC4718", (*PLAIN, "backend.file_mounts={/data: {sorce: /a}}")),
        ("JC4718", (*PLAIN, "backend.file_mounts={/data: {name: a, mode: MOUTN}}")),
        ("JC4718", (*PLAIN, "backend.extra={file_mounts: {/data: {name: a, store: s4}}}")),
        ("JC4711", (*SHARED, "backend.use_spot=true")),
        ("JC4711", (*SHARED, "backend.extra={resources: {use_spot: true}}")),
        ("JC4711", (*SHARED, "backend.extra={resources: {ports: [80]}}")),
        ("JC4711", (*SHARED, "backend.extra={resources: {memory: 8}}", "backend.tracks_memory=false")),
        ("JC4711", (*SHARED, "backend.extra={resources: {local_disk: nvme}}")),
        ("JC4711", (*SHARED, "backend.down=false")),
        ("JC4711", (*PLAIN, "backend.infra=k8s/dev", "backend.down=false")),
        ("JC4711", (*PLAIN, "backend.infra=k8s/dev", "backend.disk_tier=high")),
        ("JC4711", (*PLAIN, "backend.ports=[80]", any_of("aws", "slurm/bed"))),
        ("JC4711", (*PLAIN, "backend.any_of=[{infra: slurm/bed, gpu_type: null, use_spot: true}]")),
        ("JC4711", (*SHARED, "backend.ports=[80]")),
        ("JC4711", (*SHARED, "mem=1GiB", "backend.tracks_memory=false")),
        ("JC4713", (*SHARED, "queue.qos=hihg", "backend.qos=[high]")),
        ("JC4713", (*SHARED, "backend.extra={config: {slurm: {sbatch_options: {qos: hihg}}}}", "backend.qos=[high]")),
        ("JC4714", (*PLAIN, "queue.priority=99999")),
        ("JC4714", (*PLAIN, "queue.priority='so high'")),
        ("JC4714", (*PLAIN, "queue.priority=1.5")),
        ("JC4714", (*PLAIN, "queue.priority=-0.5")),
        ("JC4714", (*PLAIN, "queue.priority='010'")),
        ("JC4714", (*PLAIN, "queue.priority='-0'")),
        ("JC4714", (*PLAIN, "backend.extra={resources: {priority: -2000}}")),
        ("JC4715", (*PLAIN, "backend.extra={config: {slurm: {bogus: 1}}}")),
        ("JC4716", (*PLAIN, "backend.extra={config: {slurm: {sbatch_options: {time: soon}}}}")),
        ("JC4716", (*PLAIN, "backend.extra={config: {slurm: {sbatch_options: {mem: 4G}}}}")),
        ("JC4715", (*PLAIN, "backend.config={slurm: {bogus: 1}}")),
        ("JC4715", (*PLAIN, "backend.config={kubernets: {pod_config: {}}}")),
        ("JC4716", (*PLAIN, "backend.config={slurm: {sbatch_options: {time: soon}}}")),
        ("JC4716", (*PLAIN, "backend.config={slurm: {sbatch_options: {mem: 4G}}}")),
        ("JC4716", (*PLAIN, "backend.config={slurm: {sbatch_options: {container-image: x}}}")),
        ("JC4720", (*PLAIN, "backend.disk_size=1MiB")),
        ("JC4720", (*PLAIN, "backend.infra=gcp", "backend.disk_size=45GiB")),
        ("JC4720", (*PLAIN, "backend.extra={resources: {disk_size: 20GB}}")),
        ("JC4717", (*PLAIN, "container=pod", "python=image", "image=docker:x")),
        ("JC4717", (*PLAIN, "backend.cluster=8nodes")),
        ("JC4717", (*PLAIN, "container=pod", "python=image", "image=Upper/X:1")),
        ("JC4717", (*PLAIN, "backend.infra=aws", "backend.ports=[80-]")),
        ("JC4717", (*PLAIN, "backend.infra=k8s/dev", "labels.team='audio team'")),
        ("JC4717", (*PLAIN, "backend.infra=k8s/dev", "backend.extra={resources: {labels: {team: 'a b'}}}")),
        ("JC4718", (*PLAIN, any_of("aws"), any_of("gcp").replace("any_of", "ordered"))),
        ("JC4719", (*SHARED, "backend.infra=slurm/bed/gpuu", "+site.partitions={gpu: {}, cpu: {}}")),
        ("JC4719", (*SHARED, "backend.infra=slurm/bed/gpu", "queue.name=cpu")),
        ("JC4540", (*PLAIN, "backend.config={kubernetes: {pod_config: {spec: {hostIpc: true}}}}")),
        ("JC4540", (*PLAIN, "backend.extra={config: {kubernetes: {pod_config: {spec: {hostIpc: true}}}}}")),
        ("JC4550", (*PLAIN, "backend.config={ssh: {pod_config: {spec: {nodeSelector: {pool: 'a b'}}}}}")),
        ("JC4718", (*PLAIN, "backend.extra={resources: {disk_tier: ultrahigh}}")),
        ("JC4718", (*PLAIN, "backend.extra={resources: {lokal_disk: x}}")),
        ("JC4718", (*PLAIN, "backend.config={docker: {run_options: 7}}")),
        ("JC4600", (*PLAIN, "backend.extra={num_nodes: 9}")),
        ("JC4600", (*PLAIN, "backend.extra={resources: {accelerators: H100:0.5}}")),
        ("JC4600", (*PLAIN, "backend.extra={envs: {A: 7}}")),
        ("JC4600", (*PLAIN, "backend.extra={secrets: {TOKEN: null}}")),
        ("JC4101", (*PLAIN, "secrets.A=k8s:a/b")),
        ("JC2080", ("backend=skypilot", "storage.run=object")),
    ],
)
def test_what_skypilot_takes_or_refuses_late_is_refused_now(code: str, words: tuple[str, ...]) -> None:
    assert code in refused(*words)


NODES = (*SHARED, "queue.nodelist=[node1, node2]")


@pytest.mark.parametrize(
    ("words", "option", "found"),
    [
        (SHARED, "tiem: '1:00'", "sbatch has no option --tiem; did you mean backend.config.slurm.sbatch_options.time"),
        (SHARED, "mial: a", "sbatch has no option --mial; did you mean backend.config.slurm.sbatch_options.mail-type"),
        (SHARED, "N: 2", "sbatch has no option --N; remove KEY, and use nodes"),
        (SHARED, "w: node1", "sbatch has no option --w; did you mean backend.config.slurm.sbatch_options.nodelist"),
        (SHARED, "--time: 60", "sbatch has no option ----time; did you mean backend.config.slurm.sbatch_options.time"),
        (SHARED, "array: 0-3", "KEY would contradict the plan; remove KEY, and use jobc -m, which compiles"),
        (SHARED, "ntasks: 9", "KEY would contradict the plan; remove KEY, and use nodes and procs"),
        (SHARED, "ntasks_per_node: 9", "KEY would contradict the plan; remove KEY, and use nodes and procs"),
        (SHARED, "gpus-per-node: 1", "KEY would contradict the plan; remove KEY, and use gpus"),
        (NODES, "nodelist: a", "KEY is set twice; remove KEY, or hosts or queue.nodelist"),
        ((*SHARED, "hosts=node[1-2]"), "nodelist: a", "KEY is set twice; remove KEY, or hosts or queue.nodelist"),
        ((*SHARED, "queue.qos=a"), "qos: b", "KEY is set twice; remove KEY, or queue.qos"),
        (SHARED, "exclusive: maybe", "KEY: 'maybe' is not valid; KEY=true"),
        (SHARED, 'exclusive: "true"', "KEY: 'true' is not valid; KEY=true"),
        (SHARED, "nodelist: a", ""),
        (NODES, "{exclusive: user, switches: 1, begin: now, mail_type: END, array: null, container-name: null}", ""),
    ],
)  # fmt: skip
def test_options_of_sbatch_that_are_none_or_break_the_plan(words: tuple[str, ...], option: str, found: str) -> None:
    options = option if option.startswith("{") else f"{{{option}}}"
    key = f"backend.config.slurm.sbatch_options.{option.partition(':')[0]}"
    try:
        said = compile_job(
            CompileRequest((*words, f"backend.config={{slurm: {{sbatch_options: {options}}}}}"))
        ).diagnostics
    except CompileError as error:
        said = error.diagnostics
    texts = [f"{each.title}; {each.hint}" for each in said if each.code == "JC4716"]
    assert [text.startswith(found.replace("KEY", key)) for text in texts] == ([True] if found else []), texts


def test_what_looks_like_those_mistakes_is_taken() -> None:
    for words in (
        ("backend.infra=aws", "backend.ports=[80, 8000-8010]", "labels.team='audio team'"),
        ("container=pod", "python=image", "image=reg.example.org:5000/team/x:1"),
        ("backend.config={kubernetes: {pod_config: {spec: {hostIPC: true, nodeSelector: {pool: a3}}}}}",),
        ("backend.extra={resources: {disk_tier: ultra}}",),
        ("backend.extra={resources: {use_spot: true, ports: [80]}}", any_of("aws", "gcp")),
        ("backend.extra={file_mounts: {/data: {source: 's3://data', mode: COPY}}}",),
        ("backend.extra={config: {slurm: {sbatch_options: {time: '12:00:00'}}}}",),
        ("backend.infra=slurm/bed/gpu", "queue.name=gpu", "+site.partitions={gpu: {}}"),
        ("backend.down=false", "backend.infra=aws"),
        ("queue.priority=v1.high",),
        ("backend.infra=aws", "backend.disk_size=45GiB"),
        ("backend.infra=k8s/dev", "backend.disk_size=20GiB"),
    ):
        assert refused(*PLAIN, *words) == []


@pytest.mark.parametrize(("pyxis", "severity"), [("null", Severity.NOTE), ("false", Severity.ERROR), ("true", None)])
def test_an_image_on_slurm_needs_a_plugin(pyxis: str, severity: Severity | None) -> None:
    words = (*SHARED, "container=pod", "python=image", "image=x", f"backend.pyxis={pyxis}")
    try:
        found = compile_job(CompileRequest(words)).diagnostics
    except CompileError as error:
        found = error.diagnostics
        without = next(each.hint for each in found if each.code == "JC4711").split()
        assert refused(*words, *without) == []
    assert [each.severity for each in found if each.code == "JC4711"] == ([severity] if severity else [])


@pytest.mark.parametrize("infra", ["k8s/dev", "aws"])
def test_only_an_image_on_slurm_needs_a_plugin(infra: str) -> None:
    words = (*PLAIN, f"backend.infra={infra}", "container=pod", "python=image", "image=x", "backend.pyxis=false")
    assert refused(*words) == [] and "JC4711" not in refused(*words, severity=Severity.NOTE)


def test_a_site_may_call_its_gpus_as_it_likes() -> None:
    words = (*SHARED, "gpus=2", "gpu_type=fake")
    assert refused(*words) == [] and refused(*words, severity=Severity.WARNING) == ["JC4704"]
    assert refused(*PLAIN, "gpus=2", "gpu_type=fake", any_of("aws", "slurm/bed")) == ["JC4704"]


@pytest.mark.parametrize("infra", ["k8s/dev", "ssh/rack", "slurm/bed"])
@pytest.mark.parametrize(
    ("gpus", "codes"),
    [
        ("10 gpu_type=H100", []), ("3 gpu_type=H100", []), ("32 gpu_type=L40S", []), ("4 gpu_type=GH200", []),
        ("33 gpu_type=L40S", ["JC4705"]), ("8 gpu_type=GB200", ["JC4705"]), ("9 gpu_type=B200", ["JC4705"]),
        ("9 gpu_type=B200 site.gpus=8", ["JC2060"]),
    ],
)  # fmt: skip
def test_what_clouds_sell_does_not_bind_a_site(infra: str, gpus: str, codes: list[str]) -> None:
    words = (*PLAIN, f"backend.infra={infra}", *f"gpus={gpus}".split())
    assert refused(*words) == codes


@pytest.mark.parametrize("infra", ["k8s/dev", "ssh/rack", "slurm/bed"])
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("gpus=8 gpu_type=H100", ""), ("gpus=16 gpu_type=H100 site.gpus=16", ""), ("gpus=4 gpu_type=GH200", ""),
        ("nodes=2 gpus=16 gpu_type=H100", "nodes=4 gpus=8"), ("gpus=9 gpu_type=L4", "nodes=2 gpus=8"),
        ("gpus=10 gpu_type=fake", "nodes=2 gpus=5"),
    ],
)  # fmt: skip
def test_more_gpus_than_most_nodes_have_are_a_warning_on_a_site(infra: str, words: str, hint: str) -> None:
    found = compile_job(CompileRequest((*PLAIN, f"backend.infra={infra}", "storage.root=/shared/runs", *words.split())))
    said = [(d.severity, d.hint.split(",")[0]) for d in found.diagnostics if d.code == "JC4705"]
    assert said == ([(Severity.WARNING, hint)] if hint else [])


@pytest.mark.parametrize(
    ("infra", "gpus", "hint"),
    [
        ("aws", "3 gpu_type=H100", "gpus=1 or gpus=8"), ("gcp/us-central1", "3 gpu_type=H100", "gpus=2 or gpus=4"),
        ("azure", "4 gpu_type=H100", "gpus=2 or gpus=8"), ("aws", "2 gpu_type=A100-80GB", "gpus=8"),
        ("gcp", "12 gpu_type=A100", "gpus=8 or gpus=16"), ("lambda", "5 gpu_type=H100", "gpus=4 or gpus=8"),
        ("aws", "1 gpu_type=K80", "backend.infra=azure"), ("gcp", "4 gpu_type=GB200", "backend.infra=aws or"),
        ("aws", "8 gpu_type=MI325X", "gpu_type=H100"), ("aws", "8 gpu_type=H100", ""), ("gcp", "4 gpu_type=H100", ""),
        ("azure", "8 gpu_type=H200", ""), ("runpod", "3 gpu_type=H100", ""), ("vast", "12 gpu_type=RTX4090", ""),
        ("seeweb", "1 gpu_type=A30", ""), ("null", "3 gpu_type=H100", ""),
        ("aws", "3 gpu_type=H100 backend.instance_type=p9.new", ""),
    ],
)  # fmt: skip
def test_a_number_of_gpus_that_a_cloud_does_not_sell_is_a_warning(infra: str, gpus: str, hint: str) -> None:
    found = compile_job(CompileRequest((*PLAIN, f"backend.infra={infra}", *f"gpus={gpus}".split()))).diagnostics
    hints = [each.hint for each in found if each.code == "JC4705" and each.severity is Severity.WARNING]
    assert [each.startswith(hint) for each in hints] == ([True] if hint else [])


def test_the_numbers_that_clouds_sell_are_of_known_gpus_and_no_more_than_the_most() -> None:
    for kinds in SOLD.values():
        assert all(list(numbers) == sorted({*numbers}) and numbers[-1] <= GPUS[kind] for kind, numbers in kinds.items())
    assert {kind for kind in GPUS if max_gpus_in_cloud(kind) != GPUS[kind]} == set(), "a name is found by itself"


H100 = ("gpus=8", "gpu_type=H100")
FACTS = ("backend.clusters=[bed]", "backend.qos=[high]", "+site.partitions={gpu: {}}")


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ((*SHARED, "nodes=1"), "backend.clusters"), (SHARED, "backend.clusters and site.nodes"),
        ((*SHARED, "nodes=1", "queue.qos=high"), "backend.clusters and backend.qos"),
        ((*SHARED, "nodes=1", "queue.name=gpu", FACTS[0]), "site.partitions"),
        ((*PLAIN, "backend.infra=k8s/dev"), "backend.clusters"), ((*PLAIN, "backend.infra=k8s"), ""),
        ((*SHARED, "queue.qos=high", "queue.name=gpu", *FACTS), ""),
        ((*PLAIN, "backend.infra=aws/us-east-1", "queue.qos=high"), ""),
        ((*SHARED, "nodes=9", FACTS[0]), "site.nodes"), ((*SHARED, "nodes=9", FACTS[0], "site.nodes=9"), ""),
        ((*SHARED, "nodes=1", *H100, FACTS[0]), "site.gpus"),
        ((*SHARED, "nodes=1", *H100, FACTS[0], "site.gpus=8"), ""),
        ((*SHARED, *H100), "backend.clusters, site.nodes and site.gpus"),
        ((*SHARED, *H100, FACTS[0], FACTS[2]), ""), ((*PLAIN, "backend.infra=aws", "nodes=2", *H100), ""),
    ],
)  # fmt: skip
def test_what_no_profile_says_is_named(words: tuple[str, ...], facts: str) -> None:
    found = [each for each in compile_job(CompileRequest(words)).diagnostics if each.code == "JC4721"]
    assert [each.hint.startswith(f"set {facts} in the cluster profile") for each in found] == ([True] if facts else [])
    assert ["QOS" in each.because for each in found] == (["backend.qos" in facts] if facts else [])


def mount(kind: str, target: str, source: str = "a") -> str:
    return f"{{kind: {kind}, source: '{source}', target: {target}, read_only: false}}"


VOLUME, BUCKET = mount("volume", "/d"), mount("bucket", "/d/", "s3://b")


@pytest.mark.parametrize(
    ("words", "taken"),
    [
        ((f"mounts=[{VOLUME}, {mount('volume', '/d')}]",), "mounts.1: target /d"),
        ((f"mounts=[{VOLUME}, {BUCKET}]",), "mounts.1: target /d/"),
        ((f"mounts=[{mount('volume', '/a/../d')}, {BUCKET}]",), "mounts.1: target /d/"),
        ((f"mounts=[{VOLUME}]", "backend.file_mounts={/d: /own}"), "backend.file_mounts./d: target /d"),
        (("backend.file_mounts={/d: /own, /d/: /other}",), "backend.file_mounts./d/: target /d/"),
        (
            (f"mounts=[{VOLUME}]", "backend.extra={file_mounts: {/d/: 's3://b'}}"),
            "backend.extra.file_mounts./d/: target /d/",
        ),
        ((f"mounts=[{VOLUME}, {mount('volume', '/d/e')}]", "backend.file_mounts={/dd: /own}"), ""),
        (("backend.file_mounts={'~/d': /own, d: /own, /d: /own}",), ""),
    ],
)  # fmt: skip
def test_two_things_at_one_place_of_the_nodes(words: tuple[str, ...], taken: str) -> None:
    try:
        found = compile_job(CompileRequest((*PLAIN, *words))).diagnostics
    except CompileError as error:
        found = error.diagnostics
    titles = [each.title for each in found if each.code == "JC4708"]
    assert titles == ([f"{taken} is taken"] if taken else [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nodes=2", f"mounts=[{mount('host', '/d')}]"), 1),
        (("backend.managed=true", f"mounts=[{mount('host', '/d')}]"), 1),
        (("nodes=1", f"mounts=[{mount('host', '/d')}]"), 0), (("nodes=2", f"mounts=[{VOLUME}]"), 0),
    ],
)  # fmt: skip
def test_a_folder_of_the_nodes_is_shared_only_if_they_share_it(words: tuple[str, ...], said: int) -> None:
    pods = ("backend=skypilot", "backend.infra=k8s", "container=pod", "python=image", "image=x", "storage.root=/d/runs")
    words = (*pods, *(word.replace("source: 'a'", "source: /a") for word in words))
    assert refused(*words) == [] and refused(*words, severity=Severity.NOTE).count("JC4706") == said


def test_wishes_that_no_queue_hears_are_named() -> None:
    words = (*PLAIN, "backend.infra=aws", "queue.qos=high", "hosts=node1")
    assert refused(*words, severity=Severity.NOTE).count("JC4712") == 2
    texts = {file.path: file.text for file in compile_job(CompileRequest(words)).artifacts}
    ignored = json.loads(texts[".jobc/job.json"])["ignored"]
    assert "queue.qos=high" in ignored and any(typed.startswith("hosts=") for typed in ignored)


def test_a_finding_names_the_key_that_was_typed() -> None:
    words = (*SHARED, "backend.use_spot=true", "backend.extra={resources: {ports: [80, x]}}")
    with pytest.raises(CompileError) as error:
        compile_job(CompileRequest(words))
    found = [(each.code, each.key, each.hint) for each in error.value.diagnostics]
    assert [each for each in found if each[0] != "JC4721"] == [
        ("JC4711", "backend.use_spot", "backend.use_spot=false"),
        ("JC4711", "backend.extra.resources.ports", "remove backend.extra.resources.ports"),
        ("JC4717", "backend.extra.resources.ports", "backend.extra.resources.ports=[6006,8000-8010]"),
    ]


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("./configs", "$PWD/configs"),
        ("a//b/", "$PWD/a/b"),
        ("../data", "$PWD/../data"),
        ("a b", ""),
    ],
)
def test_the_hint_for_a_relative_path_is_a_path_that_the_shell_completes(source: str, hint: str) -> None:
    plain = "a path that begins with / or ~/, or a bucket URL"
    whole = f"""an absolute path: backend.file_mounts="{{/data: '{hint}'}}", or a bucket URL""" if hint else plain
    for mount, expected in ((f"'{source}'", whole), (f"{{source: ['{source}']}}", plain)):
        with pytest.raises(CompileError) as error:
            compile_job(CompileRequest((*PLAIN, f"backend.file_mounts={{/data: {mount}}}")))
        assert [found.hint for found in error.value.diagnostics if found.code == "JC4709"] == [expected]


def test_the_hint_for_runs_in_a_mounted_bucket_is_the_bucket() -> None:
    words = ("backend.managed=true", "backend.file_mounts={/ckpt: 's3://b/c'}", "storage.root=/ckpt/runs")
    with pytest.raises(CompileError) as error:
        compile_job(CompileRequest(("backend=skypilot", *words)))
    hint = next(found.hint for found in error.value.diagnostics if found.code == "JC4706")
    assert hint.startswith("storage.run=object storage.root=s3://b/c/runs, or ")


def test_one_text_is_one_line_of_setup() -> None:
    compiled = compile_job(CompileRequest((*PLAIN, "backend.setup=pip install -r requirements.txt")))
    assert compiled.options.setup == ("pip install -r requirements.txt",)


def test_each_local_file_of_a_list_is_sent() -> None:
    words = (*PLAIN, "backend.file_mounts={/data: {source: [/a, '~/b'], store: s3}, /c: /c, /d: {source: /d}}")
    compiled = compile_job(CompileRequest(words))
    assert compiled.backend.sends(compiled.plan, compiled.options) == {
        "backend.file_mounts./data.source.0": "/a",
        "backend.file_mounts./data.source.1": "~/b",
        "backend.file_mounts./c": "/c",
        "backend.file_mounts./d": "/d",
    }
