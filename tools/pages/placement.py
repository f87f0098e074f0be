"""placement.md: which code, environment and run folder each backend supports, found by compiling each combination."""

from __future__ import annotations

import itertools

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.compiler.spec.job_spec import JobSpec, PythonSpec, StorageSpec
from jobc.compiler.spec.type_hints import accepted_words, dataclass_field_types, type_of_key

from ._common import CONF, GENERATED, ROOT, first_comment, table

VOLUME = "mounts=[{kind: claim, source: shared, target: /shared, read_only: false}]"
NEEDS = {  # overrides without which a backend cannot compile
    "ssh": ("hosts=a",),
    "pdsh": ("hosts=a",),
    "kubernetes": ("image=x", VOLUME, "storage.root=/shared/runs"),
    "skypilot": (VOLUME.replace("claim", "volume"), "storage.root=/shared/runs"),
}
IMAGE = {  # what python=image needs: an image, and something that runs it
    "kubernetes": (),
    "skypilot": ("image=x", "container=pod"),
    "slurm": ("image=x.sif", "container=apptainer"),
}
CODE = {"git": ("code.repository=https://host/name", f"code.commit={'0' * 40}")}
LOWERED = {  # (storage.run, code.kind) -> how the code reaches the nodes, if the backend supports it
    ("shared", "snapshot"): "`jobctl submit` copies the code to the run folder's `code/`, which all nodes can access",
    ("node", "snapshot"): "`jobctl submit` sends the copy to each host by tar over ssh, and to each pod in a ConfigMap",
    ("node", "rsync"): "`jobctl submit` sends the copy by rsync, except files that the host's last run already has",
    ("shared", "shared"): "`launch.sh` changes to `code.root`, which every node must be able to access",
    ("node", "shared"): "`launch.sh` changes to `code.root`, which must exist at that path on every host",
    ("shared", "none"): "nothing is copied; the command must exist on the node",
    ("node", "none"): "nothing is copied; the command must exist on the node",
    ("shared", "image"): "the code is in the image",
    ("shared", "git"): "the first node checks out the commit into the run's `code/`; SkyPilot copies it to each node",
    ("node", "image"): "the code is in the image",
    ("node", "git"): "each pod checks out the commit; SkyPilot copies it to each node",
    ("object", "snapshot"): "SkyPilot sends the copy to each node; a ConfigMap delivers it to each pod",
    ("object", "shared"): "`launch.sh` changes to `code.root`, which must exist at that path on every node",
    ("object", "none"): "nothing is copied; the command must exist on the node",
    ("object", "image"): "the code is in the image",
    ("object", "git"): "each pod checks out the commit; SkyPilot copies it to each node",
}
BUCKET = {"object": ("storage.root=s3://my-bucket/runs",)}  # storage.run -> the overrides it needs


def page() -> str:
    names = sorted(file.parent.name for file in ROOT.glob("backends/*/backend.py"))
    codes = accepted_words(type_of_key(JobSpec, "code.kind"))
    storages = [
        name for name in accepted_words(dataclass_field_types(StorageSpec)["run"]) if name != "auto"
    ]  # which becomes one of these
    places = []
    for storage, code in itertools.product(storages, codes):
        fates = [
            fate(name, f"code={code}", *CODE.get(code, ()), f"storage.run={storage}", *BUCKET.get(storage, ()))
            for name in names
        ]
        places.append((f"`{storage}`", f"`{code}`", *fates, LOWERED[storage, code] if "yes" in fates else ""))
    pythons = []
    for kind in accepted_words(dataclass_field_types(PythonSpec)["kind"]):
        fates = [
            fate(name, f"python={kind}", "python.path=/env", "python.modules=[torch]", *for_env(name, kind))
            for name in names
        ]
        pythons.append((f"`{kind}`", *fates, first_comment(CONF / "python" / f"{kind}.yaml")))
    out = ["# Code, Python and run folder on each backend\n", GENERATED, PLACEMENT]
    out += ["## storage.run and code\n", table(("`storage.run=`", "`code=`", *names, "how"), *places)]
    out += ["## Python environment: venv, conda, uv, modules\n", table(("`python=`", *names, "how"), *pythons)]
    return "\n".join(out)


def for_env(backend: str, kind: str) -> tuple[str, ...]:
    code = ("code=image",) if backend == "kubernetes" else ()
    return (*code, *IMAGE.get(backend, ("image=x", "container=docker"))) if kind == "image" else code


def fate(backend: str, *words: str) -> str:
    """Return `yes`, or the code of the compile's first diagnostic."""
    try:
        compile_job(CompileRequest((f"backend={backend}", *NEEDS.get(backend, ()), *words), ("train.py",)))
    except CompileError as error:
        return error.diagnostics[0].code
    return "yes"


PLACEMENT = """\
This page answers three questions about a job on other machines: how your code gets there, which Python runs it, and
whether there is one run folder or one per node. *yes* means supported; otherwise, the table lists the diagnostic that
the compiler reports. With `storage.run=node`, each host keeps its own part of a run, and the host of rank 0 keeps the
checkpoints: [runs.md](runs.md#no-shared-storage). `storage.run=auto`, the default, means `node` where pods or cloud
machines share no storage, and `shared` elsewhere.
"""
