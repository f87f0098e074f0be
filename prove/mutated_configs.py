"""Broken specs: each compiles, or causes diagnostics that explain what is wrong, where, why, and what to type instead.

A config is a golden's words and file, with one to four mutations by Hypothesis and from a corpus: another type, huge
numbers, Unicode, cycles, metacharacters of shells, newlines, misspelled keys, mutilated YAML. If the config compiles,
bash must parse each script, the schemas must accept each engine file, and the command and variables in launch.sh,
evaluated by bash, must equal the plan's: a value that the shell expands would differ.

usage: python -m jobc.prove.mutated_configs SEED COUNT FOLDER     (what one batch found, as JSON)
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from jobc.compiler.bash_syntax import is_valid_bash
from jobc.compiler.cli import main
from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.emit.artifact import PROGRAM
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.sweeps import compile_sweep
from jobc.compiler.pipeline.types import CompiledJob, CompileRequest

from .campaign import Campaign, Line, expect
from .config_mutations import Config, keys, mutated
from .mutations import refused_by_schema
from .sameness import SCRIPTS

BATCH = 100
LIMIT_S = 60  # timeout of one config; a second is usual, but the machine may be busy
TEMPLATES = Path(__file__).resolve().parent.parent / "compiler" / "templates"


def judged(config: Config) -> tuple[str, list[str]]:
    """Compile the words, and return (`compiled` or the diagnostic codes, the errors found in the answer).

    The working directory contains jobc/cluster/.
    """
    mine = Path("jobc/cluster/mine.yaml")
    mine.unlink(missing_ok=True)
    if config.file is not None:
        mine.write_text(config.file, encoding="utf-8", newline="")
    words = [*config.words, *(() if config.command is None else ("--", *config.command))]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _limited():
        status = main(["check", "--format", "json", *(["-m"] if config.sweeps else []), *words])
    output = out.getvalue()
    if status not in (0, 1) or "Traceback" in err.getvalue():
        return "", [f"exit status {status}: {(output + err.getvalue())[-600:]}"]
    if status and not output:  # the words cannot be parsed, so --format is unknown
        refused = sorted(set(re.findall(r"^error\[(\w+) ", err.getvalue(), re.MULTILINE)))
        complete = "= because: " in err.getvalue() and "= hint: " in err.getvalue() and refused
        return " ".join(refused), [] if complete else [f"no diagnostics: {err.getvalue()[-300:]}"]
    try:
        diagnostics = json.loads(output)["diagnostics"]
    except ValueError:
        return "", [f"no diagnostics: {output[-300:]} {err.getvalue()[-300:]}"]
    wrong = [f"{d['code']} lacks {part}: {d['title'][:200]}" for d in diagnostics for part in _lacking(d)]
    refused = sorted({d["code"] for d in diagnostics if d["severity"] == "error" and not d["allowed"]})
    if status:
        return " ".join(refused), wrong + ([] if refused else ["rejected without an error"])
    return "compiled", wrong + _expanded(config)


def _lacking(diagnostic: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a diagnostic lacks. It need not have a key: it may be about a whole line or file."""
    for part in ("code", "title", "because", "hint"):
        if not diagnostic[part].strip():
            yield part
    if re.search(r"JC9\d\d\d", diagnostic["code"]) or re.search(r"\b\w+(Error|Exception)\b", diagnostic["because"]):
        yield f"a reason in plain words ({diagnostic['because'][:200]})"


def _expanded(config: Config) -> list[str]:
    """Return differences between the plan and what the ranks of the compiled artifact would get."""
    try:
        request = CompileRequest(config.words, config.command, (("project", Path("jobc").resolve()),))
        points = compile_sweep(request) if config.sweeps else [compile_job(request)]
    except CompileError as error:
        return [f"jobc check accepted it, but the compile failed: {error}"]
    with _limited():
        mistakes = [
            mistake for compiled in points for mistake in (*_invalid_files(compiled), *_changed_values(compiled))
        ]
    return [text[:300] for text in mistakes[:3]]


def _invalid_files(compiled: CompiledJob) -> Iterator[str]:
    for artifact in compiled.artifacts:
        if artifact.path == PROGRAM:
            continue
        if artifact.path.endswith(SCRIPTS) and not is_valid_bash(artifact.text):
            yield f"bash cannot parse {artifact.path}"
        if artifact.path.endswith(".yaml") and refused_by_schema(artifact.text, artifact.path):
            yield f"{artifact.path} is not valid for its engine"


def _changed_values(compiled: CompiledJob) -> Iterator[str]:
    """Yield each word of the command, and each variable, that bash reads in launch.sh differently from the plan."""
    plan, lines = compiled.plan, _value_lines(compiled)
    command = plan.command or ("python3", "-m", "jobc_trainer")
    yield from _difference("command", f"command=(\n{lines.get('command', '')})\n", "${command[@]}", command)
    for name, value in plan.env.items():
        yield from _difference(f"env.{name}", lines.get(f"env.{name}", ""), f"${{{name}}}", (value,))


def _value_lines(compiled: CompiledJob) -> dict[str, str]:
    """Map each plan key to the lines of launch.sh that contain its value."""
    template = (TEMPLATES / "launch.sh.j2").read_text(encoding="utf-8").split("\n")
    numbers = [n for n, line in enumerate(template, 1) if re.match(r"export {{ name \||  {{ word \|", line)]
    # offset 1: the value's last line
    origins = {f"jobc:compiler/templates/launch.sh.j2:{n + offset}" for n in numbers for offset in (0, 1)}
    texts = {file.path: file.text.split("\n") for file in compiled.artifacts}
    path, indent = ("launch.sh", "") if "launch.sh" in texts else ("job.yaml", "    ")  # in its ConfigMap
    lines_by_key: dict[str, str] = {}
    for line, (keys_of_line, origin) in zip(texts[path], compiled.source_map.files[path], strict=False):
        if origin in origins:
            for key in keys_of_line:
                lines_by_key[key] = f"{lines_by_key.get(key, '')}{line.removeprefix(indent)}\n"
    return lines_by_key


def _difference(key: str, script: str, expression: str, planned: Sequence[object]) -> Iterator[str]:
    """Yield differences between the words that bash reads and the planned ones.

    Values that are known only when the job runs are skipped.
    """
    text = f"{script}printf '%s\\0' \"{expression}\""
    done = subprocess.run(["bash", "-p"], input=text.encode(), capture_output=True, check=False)
    words = done.stdout.decode(errors="replace").split("\0")[:-1]
    pairs = zip(planned, words, strict=False)
    if len(words) != len(planned) or any(isinstance(value, str) and value != word for value, word in pairs):
        yield f"{key}: bash reads {words}, but the plan has {planned}"


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def too_long(*_: object) -> None:
        raise TimeoutError(f"it takes more than {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def judge_batch(number: int, count: int, folder: Path) -> dict[str, Any]:
    """Judge `count` configs drawn from the seed `number`."""
    answers: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    wrong: list[str] = []
    (folder / "jobc/cluster").mkdir(parents=True)
    (folder / "hosts.txt").write_text("a\nb\n")

    keys()
    # otherwise, a collection of all objects of Hypothesis and pytest would cost as much as a compile
    gc.freeze()

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # a failure is identified by its words; the same seed reproduces it
        suppress_health_check=list(HealthCheck),
    )
    @given(mutated())
    def judge(config: Config) -> None:
        try:
            answer, problems = judged(config)
        except Exception as error:  # this must not happen
            answer, problems = "", [f"{type(error).__name__}: {error}"]
        answers["compiled" if answer == "compiled" else "refused"] += 1
        codes.update([] if answer == "compiled" else answer.split())
        wrong.extend(f"{text} | {config!r}"[:3000] for text in problems)

    before, home = os.getcwd(), os.environ.get("HOME")
    os.chdir(folder)
    os.environ["HOME"] = str(folder)
    try:
        judge()
    finally:
        os.chdir(before)
        os.environ.pop("HOME") if home is None else os.environ.update(HOME=home)
    pwned = [str(path) for path in folder.rglob("pwned")]
    return {**answers, "codes": dict(sorted(codes.items())), "wrong": [*wrong, *pwned]}


def judge_apart(number: int, count: int, folder: Path) -> dict[str, Any]:
    """Run judge_batch() in its own process.

    Otherwise, Hypothesis would also draw constants from all other modules that are loaded.
    """
    command = [sys.executable, "-m", __spec__.name, str(number), str(count), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, done.stderr[-2000:])
    return dict(json.loads(done.stdout))


def run(number: int, folder: Path) -> dict[str, Any]:
    measured = judge_apart(number, BATCH, folder)
    wrong = measured.pop("wrong")
    expect(not wrong, f"{len(wrong)} wrong answers: {' || '.join(wrong[:4])}", **measured)
    return measured


def figure(lines: Sequence[Line]) -> str:
    compiled, refused = (sum(line.get(key, 0) for line in lines) for key in ("compiled", "refused"))
    codes = {code for line in lines for code in line.get("codes", ())}
    bad = sum(not line["ok"] for line in lines)
    return (
        f"{compiled + refused:,} configs: {compiled:,} compiled, {refused:,} rejected with {len(codes)} codes;"
        f" {bad or 'no'} batch{'es' * (bad != 1)} with a wrong answer"
    )


CAMPAIGN = Campaign(
    name="mutated_configs",
    claim=(
        "A broken spec gets a diagnostic, never a traceback. In a spec that compiles, nothing is expanded by accident."
    ),
    trial=(
        f"is {BATCH} configs from one seed: words and files of goldens with one to four mutations, by Hypothesis and"
        " from a corpus (other types, huge numbers, Unicode, cycles, metacharacters, newlines, misspelled keys,"
        " broken YAML). `jobc check` must exit with 0 or 1, and each diagnostic must have a code, a position or"
        " title, a reason and a hint. If a config compiles, bash must parse each script, the schemas of Kubernetes"
        " and SkyPilot must accept their files, and the command and the variables in launch.sh, as bash reads them,"
        " must equal those in the plan."
    ),
    count=100,
    run=run,
    figure=figure,
)


if __name__ == "__main__":
    print(json.dumps(judge_batch(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))))
