"""Config mutations: a golden's words and file, changed by Hypothesis and from a corpus of values, files and sweeps.

Out: mutated(), a strategy that draws a Config with one to four mutations; keys(), the keys that a mutation may set
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from jobc.compiler.frontend.overrides import to_hydra
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.spec.job_spec import JobSpec
from jobc.compiler.spec.type_hints import spec_keys
from jobc.compiler.testing.golden import read_golden_case

from .mutations import cases

CONF = Path(__file__).resolve().parent.parent / "conf"

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
