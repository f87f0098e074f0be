"""Commands that analyze someone else's artifact, run folder or spec run nothing of it and import nothing from it.

Each file of the artifact is forged so that whoever runs, sources, imports, unpickles or expands it creates a marker.
submit, status, logs, stop, preflight, smoke, shell, clean and watch run jobctl, so they are not analysis.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from jobc.compiler.artifacts.normalize import normalized_lines
from jobc.compiler.bash_syntax import is_valid_bash, normalized_statements
from jobc.compiler.cli import main
from jobc.compiler.cli.arguments import COMMANDS, VERBS
from jobc.compiler.emit import job_json
from jobc.compiler.emit.artifact_dir import artifact_digest
from jobc.compiler.emit.job_json import JOB
from jobc.tests.compiler.diagnosed import INTERNALS

MARKER = "executed"
EXECUTING = {*VERBS, "watch", "run"}  # they say so in their help
WITHOUT_INPUT = {"explain", "backends", "init", "completion", "help", "_complete"}
Forge = Callable[[str, str, str], "str | bytes"]  # path, text, command that makes the marker -> what the file holds


def commands_first(path: str, text: str, command: str) -> str:
    if path.endswith((".sh", ".sbatch")):
        first, _, rest = text.partition("\n")
        return f"{first}\n{command}\n$({command})\n{rest}"
    return text


def end_of_a_function(path: str, text: str, command: str) -> str:
    """Return a script that would end the function into which it is pasted."""
    return f"}}\n{command}\nscript() {{\n:\n" if path.endswith((".sh", ".sbatch")) else text


def expansions(path: str, text: str, command: str) -> str:
    """Return values of data and records that a shell, Hydra or Jinja would expand."""
    if path.endswith((".sh", ".sbatch", ".py")) or path == JOB:
        return text
    evil = (
        f"$({command})",
        f"`{command}`",
        f"a[$({command})]",
        f"{{{{ cycler.__init__.__globals__.os.popen('{command}') }}}}",
    )
    return text + "".join(f"\n# {value}\n" for value in evil) if path.endswith((".yaml", ".md")) else "\n".join(evil)


def yaml_objects(path: str, text: str, command: str) -> str:
    if not path.endswith((".yaml", ".yml")):
        return text
    target = f'_target_: os.system\n_args_: ["{command}"]\n'
    return f'{text}\nforged: !!python/object/apply:os.system ["{command}"]\n{target}'


def json_objects(path: str, text: str, command: str) -> str:
    if not path.endswith(".json") or path.startswith(".jobc/"):
        return text
    tree = json.loads(text)
    evil = {
        "py/reduce": [{"py/function": "os.system"}, {"py/tuple": [command]}],
        "_target_": "os.system",
        "_args_": [command],
    }
    return json.dumps({**tree, **evil} if isinstance(tree, dict) else evil)


class Reduced:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (self.command,)


def pickles(path: str, text: str, command: str) -> str | bytes:
    is_readable = path.startswith(".jobc/") or path.endswith((".sh", ".sbatch", ".yaml", ".json", ".py"))
    return text if is_readable else pickle.dumps(Reduced(command))


def modules(path: str, text: str, command: str) -> str:
    return f"import os\nos.system({command!r})\n{text}" if path.endswith(".py") or path == "jobctl" else text


def recorded_words(path: str, text: str, command: str) -> str:
    """Return the words that `verify` and `diff` compile again."""
    if path != JOB:
        return text
    tree = json.loads(text)
    words = [f"env.A=$({command})", f"model={{_target_: os.system, _args_: ['{command}']}}", f"env.B='`{command}`'"]
    request = {**tree["request"], "words": [*tree["request"]["words"], *words], "command": ["bash", "-c", command]}
    return job_json.to_canonical_text({**tree, "request": request})


def recorded_plan(path: str, text: str, command: str) -> str:
    """Return the settings and records in job.json, each with a value that a shell would expand."""
    if path != JOB:
        return text
    tree = json.loads(text)
    lines = {key: [*tree[key], f"x = {json.dumps(f'$({command})')}"] for key in ("identity", "spec", "plan")}
    return job_json.to_canonical_text({**tree, **lines, "job": f"$({command})", "place": f"$({command})/slurm"})


FORGERIES: tuple[Forge, ...] = (
    commands_first, end_of_a_function, expansions, yaml_objects, json_objects, pickles, modules, recorded_words,
    recorded_plan,
)  # fmt: skip
BESIDE = {  # what an interpreter, a plugin system or a shell might pick up from the folder
    "sitecustomize.py": "{python}",
    "hydra_plugins/forged/__init__.py": "{python}",
    "jobc_plugins.py": "{python}",
    "forged-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: forged\nVersion: 1\n",
    "forged-1.dist-info/entry_points.txt": "[jobc.backends]\nforged = jobc_plugins:BACKEND\n"
    "[jobc.policies]\nforged = jobc_plugins:POLICY\n",
    "conftest.py": "{python}",
    ".bashrc": "{command}\n",
    ".env": "BASH_ENV={command}\n",
    "jobc/__init__.py": "{python}",
    "templates/launch.sh.j2": "{{{{ cycler.__init__.__globals__.os.system('{command}') }}}}",
    "bin/bash": "#!/bin/sh\n{command}\n",
    "bash": "#!/bin/sh\n{command}\n",
    "git": "#!/bin/sh\n{command}\n",
}
ANALYSES = (  # {a} the forged artifact, {b} a sound one, {run} a run folder with a copy of the forged one
    "verify {a}",
    "verify {a} {run}/artifact/0 --format json",
    "verify --equivalence {a}",
    "diff {a}",
    "diff {a} {b}",
    "diff {b} {a} --format json",
    "diff {run} {b}",
    "diff {a} name=theirs nodes=2",
    "diff {a} vs {b}",
    "why {a} loop.steps",
    "why {a} A OMP_NUM_THREADS --rank 0",
    "why {a}/launch.sh:1-80",
    "why {a}/job.sbatch:3",
    "why {a}/train.json:2",
    "why {a}/spec.yaml:4",
    "ls {a} {run} --format json",
    "ls",
    "check --config-dir {a} name=x",
    "check --config-dir {a} --config-name spec",
    "plan --config-dir {a} name=x",
    "compile --config-dir {a} name=x --out {out}",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def forge(artifact: Path, how: Forge, command: str, signed: bool) -> None:
    """Forge each file. signed: with the sums and the digest of the forged files in job.json."""
    for file in sorted(path for path in artifact.rglob("*") if path.is_file()):
        before = file.read_bytes().decode(errors="surrogateescape")
        text = how(file.relative_to(artifact).as_posix(), before, command)
        file.write_bytes(text if isinstance(text, bytes) else text.encode(errors="surrogateescape"))
    for name, text in BESIDE.items():
        file = artifact / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.format(command=command, python=f"import os\nos.system({command!r})\n"))
        file.chmod(0o755)
    if signed:
        tree = json.loads((artifact / JOB).read_text())
        for path, entry in tree["checksums"].items():
            entry["sha256"] = hashlib.sha256((artifact / path).read_bytes()).hexdigest()
        tree["checksums"][JOB]["sha256"] = job_json.checksum_without_seal(tree)
        tree["digest"] = artifact_digest(tree["checksums"])
        (artifact / JOB).write_text(job_json.to_canonical_text(tree))


@pytest.mark.parametrize("signed", [False, True], ids=["edited", "signed"])
@pytest.mark.parametrize("how", FORGERIES, ids=[how.__name__ for how in FORGERIES])
def test_no_analysis_runs_anything_of_a_forged_artifact(
    folder: Path, how: Forge, signed: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["name=theirs", "backend=slurm", "env.A=1"]) == 0
    sound, forged, run = folder / "artifacts/theirs/slurm", folder / "forged", folder / "runs/theirs/1"
    shutil.copytree(sound, forged)
    forge(forged, how, f"/usr/bin/touch {folder}/{MARKER}", signed)
    shutil.copytree(forged, run / "artifact/0")
    monkeypatch.chdir(forged)  # a neighbour's folder is where people look at it
    monkeypatch.setenv("BASH_ENV", str(forged / ".bashrc"))
    places = {"a": forged, "b": sound, "run": run, "out": folder / "out"}
    for words in ANALYSES:
        command = [word.format(**places) for word in words.split()]
        capsys.readouterr()
        status = main(command)
        printed = capsys.readouterr()
        assert status in (0, 1, 2), words
        assert not [name for name in INTERNALS if name in printed.err], f"{words}: {printed.err}"
        assert not (folder / MARKER).exists(), words


def test_each_command_is_analysed_here_or_names_the_script_it_runs() -> None:
    analysed = {words.split()[0] for words in ANALYSES}
    assert analysed | EXECUTING | WITHOUT_INPUT == {*COMMANDS}


@pytest.mark.parametrize(
    "script",
    [
        "}\n{command}\n{{",
        "}\n{command}\nscript() {{",
        "}; {command}; script() {{ :",
        "cat <<EOF\n}\n{command}",
        "cat <<'}'\n}\n{command} | {{",
        ": \\\n}\n{command}",
        "x='\n}\n{command}\n{{'",
        "case x in\nesac\n}\n{command}\n{{",
        "alias a='}'\na\n{command}\n{{",
        "set +n\n}\n{command}\n{{",
        "echo $({command})",
        "x=a[$({command})]; (( x ))",
        "\0}\n{command}\n{{",
        "}\r\n{command}\r\n{{",
    ],
)
def test_the_parse_of_a_script_runs_nothing_of_it(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "bash").write_text(f"#!/bin/sh\n/usr/bin/touch {MARKER}\n")
    (folder / "touch").write_text(f"#!/bin/sh\n/usr/bin/touch {MARKER}\n")
    for name in ("bash", "touch"):
        (folder / name).chmod(0o755)
    (folder / "environment").write_text(f"/usr/bin/touch {folder / MARKER}\n")
    monkeypatch.setenv("BASH_ENV", str(folder / "environment"))
    monkeypatch.setenv("BASH_FUNC_declare%%", f"() {{ /usr/bin/touch {folder / MARKER}; }}")
    monkeypatch.setenv("POSIXLY_CORRECT", "1")
    for command in (f"/usr/bin/touch {folder / MARKER}", "touch x", f"echo > {folder / MARKER}"):
        text = script.replace("{command}", command).replace("{{", "{")
        is_valid_bash(text)
        normalized_statements(text)
        normalized_lines("launch.sh", text)
        assert not (folder / MARKER).exists(), text


def test_the_option_that_ran_the_scripts_is_refused_and_runs_none(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["name=theirs"]) == 0
    artifact = folder / "artifacts/theirs/local"
    (artifact / "launch.sh").write_text(f"#!/usr/bin/env bash\n/usr/bin/touch {folder}/{MARKER}\n")
    capsys.readouterr()
    for words in (["--equivalence", str(artifact)], [str(artifact), "--equivalence", "--format", "json"]):
        assert main(["verify", *words]) == 1
        message = capsys.readouterr().err
        assert "error[JC1110 usage-error]: jobc verify has no option --equivalence" in message
    assert not (folder / MARKER).exists()
