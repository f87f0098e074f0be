"""Text that YAML 1.1, OmegaConf or Hydra would misread: jobc keeps or rejects it, in the same way everywhere.

Each row is compiled twice: as a line of a user's config file and as a word of the command line. The first thirteen rows
are the ones where Hydra 1.3 with OmegaConf 2.3 gives different values in the two places.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError, Diagnostic
from jobc.compiler.frontend.compose import compose_job, hydra_session
from jobc.compiler.frontend.overrides import parse_overrides, parse_sweep
from jobc.compiler.pipeline.compile import config_search_path
from jobc.compiler.pipeline.types import CompileRequest
from jobc.compiler.spec.convert import convert_tree
from jobc.compiler.spec.job_spec import OPEN_KEYS, JobSpec

HYDRA_TRAPS = [
    "12:00:00", "1:30:00", "01:30:00", "24.10", "3.10", "on", "no", "1234e56", "010", "0755", "1e-5",
    "^lo,docker", "^lo", "~/x", "epoch=1.ckpt", "a,b",
]  # fmt: skip
PLAIN = [
    "yes", "off", "True", "y", "2026-01-01", "2026-01-01T12:00:00Z", "1_000", ".5", "0x10", "0b1", "1e3", "+1", "-1",
    "--flag", "inf", ".inf", "nan", "a b", "a=b", "=x", "a:b", "a(b", "a)", "a]", "a}", "a,", "a'b", 'a"b', "a\\b",
    "a\\\\b", "a\\,b", "\\", "a\\", "$HOME", "key=$HOME", "choice(a,b)", "range(1,3)", "int(3)", "true,false",
    "é", "\ue000",
    "node[1-4]", "x@sha256:ab", "user@host:/path", "NULL?", "a|b", "a&b", "a;b", "http://h:1/p?q=a&r=b", "0o7", "1__0",
]  # fmt: skip
# typed on the command line, written in a file, the text that is meant
QUOTED = [
    ("'null'", "'null'", "null"),
    ('"null"', '"null"', "null"),
    ("'~'", "'~'", "~"),
    ("", "''", ""),
    (" a", "' a'", " a"),
    ("a ", "'a '", "a "),
    (" a b ", "' a b '", " a b "),
    ("'a b'", "'a b'", "a b"),
    ('"a"', '"a"', "a"),
    ("'[x]'", "'[x]'", "[x]"),
    ('"[x"', '"[x"', "[x"),
    ("'{a: b}'", "'{a: b}'", "{a: b}"),
    ("\\${HOME}", "\\${HOME}", "${HOME}"),
    ("a\\${X}b", "a\\${X}b", "a${X}b"),
    ("${name}", "${name}", "job"),
    ("${name}-${seed}", "${name}-${seed}", "job-0"),
    ("a: b", "'a: b'", "a: b"),
    ("a #b", "'a #b'", "a #b"),
    ("#a", "'#a'", "#a"),
    ("*a", "'*a'", "*a"),
    ("&a", "'&a'", "&a"),
    ("!a", "'!a'", "!a"),
    ("!!str 12", "'!!str 12'", "!!str 12"),
    ("%a", "'%a'", "%a"),
    ("@a", "'@a'", "@a"),
    ("`a", "'`a'", "`a"),
    ("-", "'-'", "-"),
    ("?", "'?'", "?"),
    (">a", "'>a'", ">a"),
    ("|a", "'|a'", "|a"),
    ("a\tb", "'a\tb'", "a\tb"),
    ("a\u2028b", '"a\\u2028b"', "a\u2028b"),
    ("a\nb", '"a\\nb"', "a\nb"),
    ("\u00a0a", "'\u00a0a'", "\u00a0a"),
]
# refused in both places, with this code
REFUSED = [
    ("null", "null", "JC1204"),
    ("~", "~", "JC1204"),
    ("[x]", "[x]", "JC1202"),
    ("[a,b]", "[a, b]", "JC1202"),
    ("{a: b}", "{a: b}", "JC1202"),
    ("???", "???", "JC1008"),
    ("'???'", "'???'", "JC1008"),
    ("${x", "${x", "JC1007"),
    ("x${", "x${", "JC1007"),
    ("${nmae}", "${nmae}", "JC1106"),
    ("${env.X}", "${env.X}", "JC1106"),
    ("${foo:bar}", "${foo:bar}", "JC1106"),
    ("${oc.env:HOME}", "${oc.env:HOME}", "JC1107"),
    ("${now:%Y}", "${now:%Y}", "JC1107"),
]


def convert_job(words: tuple[str, ...], folder: Path | None = None) -> tuple[JobSpec | None, tuple[Diagnostic, ...]]:
    """The typed job, or why there is none."""
    request = CompileRequest(words, None, (("user", folder),) if folder else ())
    try:
        with hydra_session(config_search_path(request)) as loader:
            composed = compose_job(loader, "config", parse_overrides(words, OPEN_KEYS))
    except CompileError as error:
        return None, error.diagnostics
    tree = {key: value for key, value in composed.tree.items() if key != "backend"}
    made = convert_tree(tree, JobSpec, composed.origin_of)
    return made.value, made.diagnostics


def from_line(key: str, word: str) -> Any:
    return meaning(key, *convert_job((f"{key}={word}",)))


def from_file(folder: Path, key: str, scalar: str) -> Any:
    *sections, leaf = key.split(".")
    lines = ["# @package _global_", *(f"{'  ' * i}{section}:" for i, section in enumerate(sections))]
    return from_text(folder, "\n".join([*lines, f"{'  ' * len(sections)}{leaf}: {scalar}"]), key)


def from_text(folder: Path, text: str, key: str) -> Any:
    (folder / "cluster").mkdir()
    (folder / "cluster" / "mine.yaml").write_text(text + "\n", encoding="utf-8")
    return meaning(key, *convert_job(("cluster=mine",), folder))


def meaning(key: str, spec: JobSpec | None, diagnostics: tuple[Diagnostic, ...]) -> Any:
    """The value of a key, or the codes, reasons and hints without the place."""
    if spec is None:
        return [(d.code, d.title, d.because, d.hint) for d in diagnostics]
    value: Any = spec
    for part in key.split("."):
        value = value[part] if hasattr(value, "keys") else getattr(value, part)
    return value


KEPT = [*((text, text, text) for text in [*HYDRA_TRAPS, *PLAIN]), *QUOTED]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[JobSpec, JobSpec]:
    """Row i of KEPT as env.T<i>: all in one file, and all on one command line; each is one compile."""
    folder = tmp_path_factory.mktemp("config")
    (folder / "cluster").mkdir()
    lines = ["# @package _global_", "env:", *(f"  T{i}: {scalar}" for i, (_, scalar, _) in enumerate(KEPT))]
    (folder / "cluster" / "mine.yaml").write_text("\n".join(lines), encoding="utf-8")
    in_file = convert_job(("cluster=mine",), folder)
    on_line = convert_job(tuple(f"env.T{i}={word}" for i, (word, _, _) in enumerate(KEPT)))
    assert in_file[0] and on_line[0], (in_file[1], on_line[1])
    return in_file[0], on_line[0]


@pytest.mark.parametrize("row", range(len(KEPT)), ids=lambda row: repr(KEPT[row][0]))
def test_text_is_kept_in_a_file_and_on_the_command_line(row: int, kept: tuple[JobSpec, JobSpec]) -> None:
    in_file, on_line = kept
    assert in_file.env[f"T{row}"] == on_line.env[f"T{row}"] == KEPT[row][2]


@pytest.mark.parametrize(("word", "scalar", "code"), REFUSED)
def test_what_is_no_text_is_refused_alike_in_both_places(word: str, scalar: str, code: str, tmp_path: Path) -> None:
    refused = from_line("env.X", word)
    assert [found[0] for found in refused] == [code]
    assert all(because and hint for _, _, because, hint in refused)
    assert from_file(tmp_path, "env.X", scalar) == refused


@pytest.mark.parametrize("text", ["24.10", "on", "1234e56", "^lo,docker", "010", "12:00:00", "a,b", "1_000"])
def test_every_key_of_text_keeps_it(text: str, tmp_path: Path) -> None:
    lines = [f"{key}: {text}" for key in ("image", "gpu_type")]
    lines += [
        f"labels: {{x: '{text}'}}",
        f"container:\n  workdir: {text}",
        f"queue:\n  name: {text}\n  priority: {text}",
    ]
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "mine.yaml").write_text("\n".join(["# @package _global_", *lines]), encoding="utf-8")
    keys = ("image", "gpu_type", "labels.x", "container.workdir", "queue.name", "queue.priority")
    for spec, diagnostics in (
        convert_job(("cluster=mine",), tmp_path),
        convert_job(tuple(f"{k}={text}" for k in keys)),
    ):
        assert {meaning(key, spec, diagnostics) for key in keys} == {text}


NODE_LIST = ("node1", "node2", "node3", "node4")
TYPED = [  # key, text, the value or the code
    ("time", "12:00:00", 43200),
    ("time", "1:30:00", 5400),
    ("time", "1-12:00:00", 129600),
    ("time", "12h", 43200),
    ("time", "1h30m", 5400),
    ("time", "43200", "JC1202"),  # YAML's own reading of 12:00:00
    ("time", "10:30", "JC1202"),
    ("time", "1_000", "JC1202"),
    ("time", "null", None),
    ("time", "~", None),
    ("time", "'null'", "JC1202"),
    ("time", "12h,24h", "JC1202"),
    ("nodes", "1_000", 1000),
    ("nodes", "+2", 2),
    ("nodes", "'2'", 2),
    ("nodes", "010", "JC1202"),
    ("nodes", "0755", "JC1202"),
    ("nodes", "0x10", "JC1202"),
    ("nodes", "1e3", "JC1202"),
    ("nodes", "1.0", "JC1202"),
    ("nodes", ".5", "JC1202"),
    ("nodes", "on", "JC1202"),
    ("nodes", "٣", "JC1202"),
    ("nodes", "null", "JC1204"),
    ("nodes", "~", "JC1204"),
    ("nodes", "1,2", "JC1202"),
    ("nodes", "[1,2]", "JC1202"),
    ("nodes", "99999999999999999999", "JC1202"),
    ("nodes", "${seed}", "JC1202"),  # 0
    ("mem", "64GiB", 64 * 2**30),
    ("mem", "1.5GiB", 3 * 2**29),
    ("mem", "64Gi", 64 * 2**30),
    ("mem", "1024GB", 1024 * 10**9),
    ("mem", "64G", "JC1202"),
    ("mem", "0.5T", "JC1202"),
    ("shm", "16g", "JC1202"),
    ("mem", "64", "JC1202"),
    ("mem", "0GiB", "JC1202"),
    ("mem", "1e3", "JC1202"),
    ("optim.lr", "1e-5", 1e-5),
    ("optim.lr", ".5", 0.5),
    ("optim.lr", "1_000", 1000.0),
    ("optim.lr", "010", "JC1202"),
    ("optim.lr", "1e400", "JC1202"),
    ("optim.lr", "nan", "JC1202"),
    ("queue.exclusive", "on", True),
    ("queue.exclusive", "no", False),
    ("queue.exclusive", "1", "JC1202"),
    ("queue.name", "null", None),
    ("queue.name", "~", None),
    ("queue.name", "''", "JC1202"),
    ("queue.after", "[010,1e5,on]", ("010", "1e5", "on")),
    ("queue.after", "010", "JC1202"),
    ("hosts", "node[1-4]", NODE_LIST),
    ("hosts", "node1,node[2-4]", NODE_LIST),
    ("hosts", "[node1, node2, node3, node4]", NODE_LIST),
    ("hosts", "a,a", "JC1202"),
    ("code.kind", "no", "JC1202"),
    ("name", "2026-01-01", "2026-01-01"),
    ("name", "on", "on"),
    ("name", "1e3", "1e3"),
    ("name", "null", "JC1204"),
    ("rendezvous.port", "0x7", "JC1202"),
]


@pytest.mark.parametrize(("key", "text", "expected"), TYPED)
def test_a_typed_key_reads_the_same_text_alike_in_both_places(
    key: str, text: str, expected: Any, tmp_path: Path
) -> None:
    on_line, in_file = from_line(key, text), from_file(tmp_path, key, text)
    assert on_line == in_file
    if isinstance(on_line, list):
        assert [found[0] for found in on_line] == [expected]
        assert all(because and hint for _, _, because, hint in on_line)
    else:
        assert on_line == expected
        assert type(on_line) is type(expected)


def test_nothing_after_the_colon_is_null_and_nothing_after_the_equals_sign_is_empty_text(tmp_path: Path) -> None:
    """The one place where the two grammars differ; neither is taken for the other in silence."""
    assert from_line("env.X", "") == ""
    assert from_file(tmp_path, "env.X", "")[0][0] == "JC1204"
    assert from_line("queue.name", "")[0][0] == "JC1202"


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ("|\n    a\n    b", "a\nb\n"),
        ("|-\n    a\n    b", "a\nb"),
        (">\n    a\n    b", "a b\n"),
        (">-\n    12:00:00", "12:00:00"),
        ("|+\n    a\n", "a\n\n"),
        ("|-\n    null", "null"),
        ("!!str 0755", "0755"),
        ("!!str on", "on"),
        ("!!int 0755", "0755"),
        ("&anchor 1e3", "1e3"),
        ("'it''s'", "it's"),
        ('"\\x41\\u00e9"', "Aé"),
        ("12:00:00   # a comment", "12:00:00"),
        ("a\n    b", "a b"),
    ],
)
def test_every_form_of_a_yaml_scalar_gives_its_text(block: str, text: str, tmp_path: Path) -> None:
    assert from_file(tmp_path, "env.X", block) == text


def test_aliases_and_merge_keys_carry_text(tmp_path: Path) -> None:
    env, labels = "env: &base\n  A: 0755\n  B: 12:00:00", "labels:\n  <<: *base\n  B: on"
    text = f"# @package _global_\n{env}\n{labels}\nqueue: {{name: &n 24.10, qos: *n}}\n"
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "mine.yaml").write_text(text, encoding="utf-8")
    spec, diagnostics = convert_job(("cluster=mine",), tmp_path)
    assert spec is not None, diagnostics
    assert spec.labels == {"A": "0755", "B": "on"}
    assert (spec.queue.name, spec.queue.qos) == ("24.10", "24.10")


@pytest.mark.parametrize("name", ["on", "yes", "no", "null", "true", "y", "_1", "NULL"])
def test_keys_that_look_like_values_are_names(name: str, tmp_path: Path) -> None:
    assert from_file(tmp_path, f"env.{name}", "1") == "1"
    assert from_line(f"env.{name}", "1") == "1"


@pytest.mark.parametrize("name", ["1", "1e3", "0755", "2026-01-01", "~", "12:00"])
def test_keys_of_labels_keep_their_text(name: str, tmp_path: Path) -> None:
    assert from_file(tmp_path, f"labels.{name}", "x") == "x"


def swept(*words: str) -> list[tuple[str, ...]]:
    return [tuple(o.canonical.partition("=")[2].strip("'") for o in point) for point in parse_sweep(words, OPEN_KEYS)]


@pytest.mark.parametrize(
    ("word", "points"),
    [
        ("env.X=a,b", ["a", "b"]),
        ("env.X=010,1e3,on", ["010", "1e3", "on"]),
        ("env.X='a,b'", ["a,b"]),
        ("env.X=a\\,b", ["a,b"]),
        ("env.X=12:00:00,24.10", ["12:00:00", "24.10"]),
        ("nodes=range(1,4)", ["1", "2", "3"]),
        ("env.X=choice(0755,on)", ["0755", "on"]),
        ("env.X=a", ["a"]),
        ("env.X=null,a", ["null", "a"]),
    ],
)
def test_a_comma_sweeps_with_m_and_every_point_keeps_its_text(word: str, points: list[str]) -> None:
    assert swept(word) == [(point,) for point in points]


@pytest.mark.parametrize(
    ("word", "in_quotes", "as_text"),
    [
        ("labels.team=Zürich,Köln", 'labels.team="Zürich","Köln"', 'labels.team="Zürich,Köln"'),
        ("env.A=(a),b", 'env.A="(a)","b"', 'env.A="(a),b"'),
        ("env.A=a;,b", 'env.A="a;","b"', 'env.A="a;,b"'),
        ("env.A= a,b", 'env.A="a","b"', 'env.A=" a,b"'),
        ("env.A=don't,won't", 'env.A="don\'t","won\'t"', "env.A=\"don't,won't\""),
        ("env.A='é',è", "env.A='é',\"è\"", "env.A=\"'é',è\""),
        ("env.A=choice(é,(è,e))", 'env.A="é","(è,e)"', 'env.A="choice(é,(è,e))"'),
        ("env.A=node[1,3]", "", 'env.A="node[1,3]"'),
        ("env.A=a,,b", "", 'env.A="a,,b"'),
    ],
)
def test_a_sweep_that_cannot_be_read_is_no_single_text(word: str, in_quotes: str, as_text: str) -> None:
    with pytest.raises(CompileError) as refused:
        swept(word)
    (told,) = refused.value.diagnostics
    offered = [shlex.quote(each) for each in (in_quotes, as_text) if each]
    assert (told.code, told.hint) == ("JC1101", f"{' or '.join(offered)}, if it is a single string")
    assert not in_quotes or len(swept(in_quotes)) == 2
    assert len(swept(as_text)) == 1


@pytest.mark.parametrize("word", ["env.A=é\\,è", "env.A=(a)", "env.A=x=(1)", "env.A=é"])
def test_what_has_no_bare_comma_stays_one_text(word: str) -> None:
    assert len(swept(word)) == 1


@pytest.mark.parametrize(
    ("key", "values"),
    [("nodes", "1,2"), ("time", "1h,2h"), ("mem", "1GiB,2GiB"), ("code.kind", "snapshot,shared"), ("model", "1,2")],
)
def test_a_comma_without_m_is_refused_for_a_typed_key_and_the_hint_is_m(key: str, values: str) -> None:
    refused = from_line(key, values)
    assert refused[0][3] == f"for a sweep: jobc -m {key}={values}"


def test_the_origin_of_a_value_is_the_place_where_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "mine.yaml").write_text("# @package _global_\nnodes: 010\n", encoding="utf-8")
    _, (in_file,) = convert_job(("cluster=mine",), tmp_path)
    _, (on_line,) = convert_job(("nodes=010",))
    assert str(in_file.origin) == "user:cluster/mine.yaml:2:8"
    assert str(on_line.origin) == "command line: nodes=010"
