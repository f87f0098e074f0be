"""placement.md: which code, environment and run folder each backend accepts, found by compiling each."""

from __future__ import annotations

import itertools

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import Request
from jobc.compiler.spec.job_spec import JobSpec, PythonSpec, StorageSpec
from jobc.compiler.spec.type_hints import choices, hints, type_at

from ._common import CONF, GENERATED, ROOT, first_comment, table

VOLUME = "mounts=[{kind: claim, source: shared, target: /shared, read_only: false}]"
NEEDS = {  # overrides that a backend cannot compile without
    "ssh": ("hosts=a",),
    "pdsh": ("hosts=a",),
    "kubernetes": ("image=x", VOLUME, "storage.root=/shared/runs"),
    "skypilot": (VOLUME.replace("claim", "volume"), "storage.root=/shared/runs"),
}
IMAGE = {  # what python=image needs: an image, and a runtime for it
    "kubernetes": (),
    "skypilot": ("image=x", "container=pod"),
    "slurm": ("image=x.sif", "container=apptainer"),
}
CODE = {"git": ("code.repository=https://host/name", f"code.commit={'0' * 40}")}
LOWERED = {  # storage.run, code.kind: what they become on a backend that accepts them
    ("shared", "snapshot"): "`jobctl submit` copies it to `code/` of the run folder, which all nodes see",
    ("node", "snapshot"): "the same, and the copy goes to each host by tar over ssh, to each pod in a ConfigMap",
    ("node", "rsync"): "the same, by rsync: files that the last run on that host also has are not sent again",
    ("shared", "shared"): "`launch.sh` goes to `code.root`, which every node must see",
    ("node", "shared"): "`launch.sh` goes to `code.root`, which every host must have at that path",
    ("shared", "none"): "nothing is copied; the command must exist on the node",
    ("node", "none"): "nothing is copied; the command must exist on the node",
    ("shared", "image"): "it is in the image",
    ("shared", "git"): "the first node checks the commit out to `code/` of the run; SkyPilot copies it to each",
    ("node", "image"): "it is in the image",
    ("node", "git"): "each pod checks the commit out; SkyPilot copies it to each node",
    ("object", "snapshot"): "SkyPilot sends the copy to each node; a ConfigMap delivers it to each pod",
    ("object", "shared"): "`launch.sh` goes to `code.root`, which every node must have at that path",
    ("object", "none"): "nothing is copied; the command must exist on the node",
    ("object", "image"): "it is in the image",
    ("object", "git"): "each pod checks the commit out; SkyPilot copies it to each node",
}
BUCKET = {"object": ("storage.root=s3://my-bucket/runs",)}  # storage.run -> what it needs


def page() -> str:
    names = sorted(file.parent.name for file in ROOT.glob("backends/*/backend.py"))
    codes = choices(type_at(JobSpec, "code.kind"))
    storages = [name for name in choices(hints(StorageSpec)["run"]) if name != "auto"]  # auto becomes one of these
    places = []
    for storage, code in itertools.product(storages, codes):
        fates = [
            fate(name, f"code={code}", *CODE.get(code, ()), f"storage.run={storage}", *BUCKET.get(storage, ()))
            for name in names
        ]
        places.append((f"`{storage}`", f"`{code}`", *fates, LOWERED[storage, code] if "yes" in fates else ""))
    pythons = []
    for kind in choices(hints(PythonSpec)["kind"]):
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
        compile_job(Request((f"backend={backend}", *NEEDS.get(backend, ()), *words), ("train.py",)))
    except CompileError as error:
        return error.diagnostics[0].code
    return "yes"


PLACEMENT = """\
Three questions about a job on other machines: how your code gets there, which Python runs it, and whether there is
one run folder or one per node. *yes*: supported; otherwise the diagnostic that the compiler reports. With
`storage.run=node`
each host keeps its own part of a run, and the host of rank 0 the checkpoints: [runs.md](runs.md#no-shared-storage).
`storage.run=auto`, the default, is `node` where pods or machines of a cloud share no storage, else `shared`.
"""
