"""Scripts in the styles that people have, run as they are by a user who is not root: on one host and with Slurm.

The campaign `own_scripts` of prove/ has all of them on both, with torchrun; here the cheap launcher starts most.
"""

from __future__ import annotations

import re
import signal

import pytest

from jobc.tests.testbed import Cluster, wait_for

from .person import BACKENDS, TIMEOUT_S, Person, finishes, is_mended_stopped_and_resumed
from .styles import STYLES, Style

pytestmark = [pytest.mark.engine, pytest.mark.slow]

SPAWN = "launcher=spawn"
PUBLIC = {"plain DDP, a snapshot", "nanoGPT", "accelerate", "HF Trainer, its bar"}  # tests/trainer/test_own_scripts.py
HEAVY = {*PUBLIC, "wandb offline", "Lightning Fabric", "ignite", "DeepSpeed"}  # the campaign runs these
NODES_OF_SLURM = {
    "argparse, ignored data, a bar, relative output", "python -m, its own --key=value", "tqdm",
    "notebook, started in its folder", "an exit code of its own", "print of rank 0, git commit",
}  # fmt: skip


@pytest.fixture(scope="module")
def person(cluster: Cluster) -> Person:
    return Person.with_project(cluster.login, "styles")


@pytest.mark.parametrize("name", [name for name in STYLES if name not in HEAVY])
def test_a_script_runs_as_it_is_and_its_files_are_named(name: str, person: Person) -> None:
    finishes(person, "local", STYLES[name], *(() if STYLES[name].ranks == 2 else (SPAWN,)))


@pytest.mark.parametrize("name", sorted(NODES_OF_SLURM))
def test_a_script_runs_as_it_is_on_slurm(name: str, person: Person) -> None:
    finishes(person, "slurm", STYLES[name], SPAWN)


def test_a_mistake_is_mended_and_the_run_stopped_and_resumed(person: Person) -> None:
    wrapper = STYLES["shell wrapper, python -m, subcommands, worker processes"]
    is_mended_stopped_and_resumed(person, "slurm", wrapper, SPAWN)


def compile_job(person: Person, backend: str, *command: str) -> list[str]:
    """Compile a job of one rank; return the words that start it and wait for its end."""
    code, said = person.run("jobc", *person.words(backend, Style(command, ())), SPAWN, "--", *command)
    assert code == 0, said
    return [f"artifacts/{person.name}/{backend}/jobctl", "submit", *(["--wait"] if backend == "slurm" else [])]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_stop_is_saved_and_the_next_start_continues(backend: str, person: Person) -> None:
    submit, run = compile_job(person, backend, "preempted.py"), person.project / f"runs/own/stopped-{backend}"
    process = person.start(*submit, "--run-id", run.name)
    log = run / "logs/rank_00.log"
    wait_for(lambda: (log.exists() and "step 3\n" in log.read_text()) or process.poll() is not None, "step 3")
    if backend == "local":
        process.send_signal(signal.SIGINT)  # Ctrl-C
    else:
        assert person.jobctl(backend, "stop", "--run", run.name)[0] == 0
    said = process.communicate(timeout=TIMEOUT_S)[0]
    assert process.returncode == (130 if backend == "local" else 0) and "interrupted: saving" in said, said
    (run / "code/enough").touch()
    code, said = person.run(*submit, "--resume", run.name)
    assert code == 0 and "from step " in said and not re.search(r"from step [0-2]\n", said), said


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bug_is_mended_and_the_run_continues_where_it_was(backend: str, person: Person) -> None:
    style = STYLES["continues from its newest file"]
    style.edit(person.project, "")
    submit, run = compile_job(person, backend, *style.command), person.project / f"runs/own/mended-{backend}"
    code, said = person.run(*submit, "--run-id", run.name)
    assert code == 1 and "starting from scratch" in said and "KeyError: 3" in said, said
    script = person.project / "latest.py"
    script.write_text(script.read_text().replace('2: "fox"', '2: "fox", 3: "owl"'))
    code, said = person.run(*submit, "--resume", run.name, "--new-code")
    assert code == 0 and "starting from checkpoints/epoch_3.json" in said and "history: cat dog fox owl" in said, said
    assert "KeyError" not in said, said


def test_the_error_of_a_recorded_main_is_the_reason(person: Person) -> None:
    code, said = person.run(*compile_job(person, "local", "record.py", "--fail"))
    assert code == 1 and "ValueError: the loss is wrong" in said, said
    assert "ValueError: the loss is wrong (record.py:" in person.jobctl("local", "status")[1]
