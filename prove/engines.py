"""Run one job without a host list: in pods, and on machines that SkyPilot allocates in the test bed's Slurm.

In   the test bed's cluster, an empty folder that its hosts can access, and words of the spec
Out  the folder of the run, which exited with 0
"""

from __future__ import annotations

from pathlib import Path

from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.backends.pods import Rack
from jobc.tests.podrunner import PodRunner
from jobc.tests.skypilot.bed import ON_BED, SKY, SkyBed
from jobc.tests.testbed import Cluster

HAS_SKYPILOT = SKY.name != ""
NO_SKYPILOT = "skypilot: JOBC_SKY is not an environment with SkyPilot; make prove uses the one from make test-sky"
VISIBLE = (SKY,) if HAS_SKYPILOT else ()  # for the cluster's Shape


def on_pods(bed: Cluster, folder: Path, *words: str) -> Path:
    """Apply the manifests with kubectl, using the tests' pod runner."""
    folder.mkdir()
    with PodRunner(bed) as runner:
        job = Rack(runner, folder).make("code=image", *words)
        ended, output = job("submit", "--wait")
        if ended:
            raise RuntimeError(f"kubernetes ended with {ended}: {output[-1500:]}")
        return job.run


def on_skypilot(bed: Cluster, folder: Path, *words: str) -> Path:
    """Run `sky launch`, and then `sky down`."""
    folder.mkdir()
    storage = folder / "storage"
    compiled = compile_job(CompileRequest((*ON_BED, f"storage.root={storage}", "name=proof", *words)))
    artifact = write_compiled_job(compiled, folder / "artifacts")
    with SkyBed(bed) as sky:
        sky.seed("proof")
        try:
            done = sky.run(f"{artifact}/jobctl submit --wait", timeout_s=600)
            if done.returncode:
                raise RuntimeError(f"skypilot exited with {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
        finally:
            sky.run(f"{artifact}/jobctl stop --down")
    (run,) = storage.glob("*/*/exit")
    return run.parent
