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
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from jobc.compiler.bash_syntax import is_valid_bash
from jobc.compiler.cli import main
from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.emit.artifact import PROGRAM
from jobc.compiler.frontend.overrides import to_hydra
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.sweeps import compile_sweep
from jobc.compiler.pipeline.types import CompiledJob, CompileRequest
from jobc.compiler.spec.job_spec import JobSpec
from jobc.compiler.spec.type_hints import spec_keys
from jobc.compiler.testing.golden import read_golden_case

from .campaign import Campaign, Line, expect
from .mutations import cases, refused_by_schema
from .sameness import SCRIPTS

BATCH = 100
LIMIT_S = 60  # timeout of one config; a second is usual, but the machine may be busy
CONF = Path(__file__).resolve().parent.parent / "conf"
TEMPLATES = CONF.parent / "compiler" / "templates"

CORPUS = (
    "", " ", "null", "~", "true", "yes", "NaN", "inf", "-1", "0", "1", "2", "3.5", "1e3", "1e999", "0x10", "0755",
    "010", "1_000", "9" * 30, "-" + "9" * 30, "1e-320", "[]", "{}", "[1,2]", "[[[[]]]]", "{a: {b: {c: 1}}}", "[null]",
    "{null: 1}", "[a,[b],{c: d}]", "12h", "90s", "1-12:00:00", "64GiB", "64G", "-1GiB", "1e9GiB", "node[1-2]",
    "node[1-99999999]", "node[2-1]", "node[a-b]", "@hosts.txt", "${name}", "${nodes}", "${env.A}", "${labels.a}",
    "${oc.env:HOME}", "${", "${}", "${a.b.c}", "${${name}}", "$", "$$", "$HOME", "${HOME}", "$(touch pwned)",
    "`touch pwned`", "$((1/0))", "; touch pwned", "| tee x", "&& x", "> x", "* ?", "{a,b}", "!x", "# x", "'", '"', "\\",
    "a'b\"c", "%s%h%%", "\n", "a\nb", "\r\n", "\t", "a\n#SBATCH --nodes=9\n", "\nEOF\n", "\x01\x1b[31m", "\x7f", "\x85",
    "\u2028", "\ufeff", "\U0001f642", "e\u0301", "日本語", "\u202e", "x" * 5000, "../../x", "/", "/dev/null", "~/x",
    "-rf", "--help", "a b", "a=b", "a: b", "- a", "|", ">", "&a", "*a", "<<", "!!python/object:os.system", "@x",
    "{{ x }}", "{% x %}", "???",
)  # fmt: skip
TREES = (  # whole files
    "defaults: [/cluster/mine]\n", "defaults: [/cluster/nope]\n", "defaults: 5\n", "a: &a [*a]\n", "env: &e {A: *e}\n",
    "- 1\n", "5\n", "", "\0", "{", "a: b: c\n", "env: {A: '${env.B}', B: '${env.C}', C: '${env.A}'}\n",
    "name: ${name}\n", "labels: {a: '${labels}'}\n", "? [a]\n: 1\n", "nodes: 1\nnodes: 2\n", "\tnodes: 1\n",
    "batch: !!set {a}\n",
    "env: {" + ", ".join(f"V{i}: {i}" for i in range(300)) + "}\n", "env: " + "{a: " * 200 + "1" + "}" * 200 + "\n",
    "env:\n  <<: {A: 1}\n", "# @package nope\nnodes: 1\n", "# @package _global_\nnodes: &a 2\n<<: *a\n",
)  # fmt: skip
SWEEPS = (  # values of a word after -m
    "1,2", "a,b", "glob(*)", "glob(x*)", "range(0)", "range(5,1)", "range(0,2)", "range(1,2,0)", "range(0,1,0.5)",
    "range(0,nan)", "range(0,inf)", "range(1,999999999)", "shuffle(range(0,9e99))", "interval(0,1)", "choice(a)",
    "sort(2,1)", "[1],[2]", "{a: 1},{b: 2}", "null,1", "1,1",
)  # fmt: skip
FREE = (
    "env.{}", "labels.{}", "secrets.{}", "network.settings.{}", "queue.{}", "backend.extra.{}", "estimate.prices.{}",
)  # fmt: skip
KINDS = (  # kinds of mutations, some more frequent than others
    "mix", "mix", "mix", "value", "value", "value", "number", "number", "free", "free", "file", "file", "lines",
    "command", "typo", "raw", "drop",
)  # fmt: skip

characters = st.one_of(
    st.sampled_from("'\"$`\\{}()[]!%#&;|<>*?~ \t\n=,:-@^"),
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]),
)
texts = st.one_of(st.sampled_from(CORPUS), st.text(characters, max_size=20))
numbers = st.one_of(st.integers(), st.floats(), st.sampled_from((0, 1, 2, 7, 64, 2**31, 2**63, 2**64)))
names = st.one_of(
    st.sampled_from(("A", "PATH", "RANK", "a.b", "é", "a b", "1")), st.text(characters, min_size=1, max_size=6)
)


@cache
def keys() -> tuple[str, ...]:
    """Return the keys of the spec, of each backend, and the groups."""
    of_each = {case.parent.name: case for case in cases()}.values()
    options = sorted({key for case in of_each for key in compile_job(read_golden_case(case)).source_map.spec})
    return tuple(
        dict.fromkeys([*spec_keys(JobSpec), "backend", *options, "task", "+experiment", "+task", "hydra.run.dir"])
    )


@dataclass(frozen=True)
class Config:
    """A command line and a config file.

    words: the words of the command line
    command: the words after `--`
    file: the text of jobc/cluster/mine.yaml
    sweeps: whether -m is given
    """

    words: tuple[str, ...]
    command: tuple[str, ...] | None
    file: str | None
    sweeps: bool = False


@st.composite
def mutated(draw: st.DrawFn) -> Config:
    base = read_golden_case(draw(st.sampled_from(cases())))
    words, file, command, sweeps = list(base.words), None, base.command, False
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 2, 3, 4)))):
        kind = draw(st.sampled_from(KINDS))
        if kind == "file":
            is_whole = draw(st.sampled_from((True, True, False)))
            file = draw(written()) if is_whole else draw(st.sampled_from(TREES))
        elif kind == "lines":
            file = draw(mutilated())
        elif kind == "command":
            command = tuple(draw(st.lists(texts, max_size=4)))
        elif kind == "typo" and words:
            index = draw(st.integers(0, len(words) - 1))
            cut = draw(st.integers(0, len(words[index])))
            words[index] = words[index][:cut] + draw(st.text(characters, max_size=2)) + words[index][cut + 1 :]
        elif kind == "drop" and words:
            del words[draw(st.integers(0, len(words) - 1))]
        elif kind == "raw" and draw(st.booleans()):
            words.append(f"{draw(st.sampled_from(keys()))}={draw(st.sampled_from(SWEEPS))}")
            sweeps = True
        else:
            words.append(draw(typed(kind)))
    if file is not None:
        words.append("cluster=mine")
    return Config(tuple(words), command, file, sweeps)


@st.composite
def typed(draw: st.DrawFn, kind: str) -> str:
    """Draw a word for the command line."""
    key = draw(st.sampled_from(keys()))
    if kind == "mix":  # from another job, where it made sense
        words = [word for word in read_golden_case(draw(st.sampled_from(cases()))).words if "=" in word]
        return draw(st.sampled_from(words)) if words else "nodes=3"
    if kind == "number":
        return f"{key}={draw(numbers)}"
    if kind == "free":
        return f"{draw(st.sampled_from(FREE)).format(draw(names))}={to_hydra(draw(texts))}"
    if kind == "raw":  # as typed by someone who does not know Hydra's quoting
        return f"{draw(st.sampled_from(('', '+', '++', '~')))}{key}={draw(texts)}"
    return f"{key}={to_hydra(draw(texts))}"


@st.composite
def written(draw: st.DrawFn) -> str:
    """Draw a YAML file with some of the spec's sections."""
    sections = draw(st.lists(st.sampled_from(keys()).map(lambda key: key.split(".")[0]), min_size=1, max_size=3))
    tree = {section: draw(trees) for section in sections}
    return "# @package _global_\n" + json.dumps(tree, ensure_ascii=False)


FIELDS = st.one_of(names, st.sampled_from(("kind", "name", "micro", "extra", "grace", "root", "port")))
trees = st.recursive(
    st.one_of(texts, numbers, st.none(), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(FIELDS, inner, max_size=3)),
    max_leaves=5,
)


@st.composite
def mutilated(draw: st.DrawFn) -> str:
    """Mutate one of jobc's own files: delete, duplicate, indent or replace a line."""
    path = draw(st.sampled_from(sorted([*CONF.glob("experiment/*.yaml"), CONF / "config.yaml"])))
    lines = path.read_text(encoding="utf-8").split("\n")
    for _ in range(draw(st.integers(1, 3))):
        index = draw(st.integers(0, len(lines) - 1))
        how = draw(st.sampled_from(("drop", "double", "indent", "text", "value")))
        key, colon, _ = lines[index].partition(":")
        new = {"drop": [], "double": [lines[index]] * 2, "indent": [" " + lines[index]], "text": [draw(texts)]}
        lines[index : index + 1] = new.get(how, [f"{key}{colon} {draw(texts)}"])
    return "\n".join(lines)


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
