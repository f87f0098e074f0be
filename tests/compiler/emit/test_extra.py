"""backend.extra: how a tree is read and merged, what is rejected, and that `jobc why` finds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from jobc.compiler.diagnostics.diagnostic import Severity
from jobc.compiler.emit.extra_entries import check_extra_entries, merge_extra_entries
from jobc.compiler.emit.render import Render
from jobc.compiler.frontend.yaml_reader import parse_yaml_tree
from jobc.compiler.spec.convert import convert_tree

from ..diagnosed import found

PROTECTED = {("count",): "nodes", ("spec", "*", "image"): "image"}


@dataclass(frozen=True)
class Options:
    extra: Mapping[str, Any]


def options(text: str) -> Options:
    read = convert_tree(parse_yaml_tree(text, "input", "x.yaml"), Options, lambda key: None, "backend")
    assert not read.diagnostics and read.value is not None
    return read.value


def merged(base: Any, text: str) -> Any:
    given = options(text)
    render = Render((), (), {"options": given, "plan": MappingProxyType({"name": "hello"})})
    return render.yaml([merge_extra_entries(base, given.extra)], "job.yaml")


def test_scalars_are_read_as_yaml_1_2_reads_them() -> None:
    given = options('extra: {a: 8, b: "8", c: true, d: on, e: 0755, f: 1e-3, g: null, h: [1, {i: no}], j: 12:30}')
    assert dict(given.extra) == {
        "a": 8, "b": "8", "c": True, "d": "on", "e": "0755", "f": 0.001, "g": None, "h": (1, {"i": "no"}), "j": "12:30",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("base", "extra", "expected"),
    [
        ({"a": 1}, "{a: 2}", {"a": 2}),
        ({"a": 1}, "{b: {c: [3]}}", {"a": 1, "b": {"c": [3]}}),
        ({"a": {"b": 1, "c": 2}}, "{a: {b: null}}", {"a": {"c": 2}}),
        ({"a": [1, 2]}, "{a: [3]}", {"a": [3]}),
        ({"a": lambda v: {"b": 1}}, "{a: {c: 2}}", {"a": {"b": 1, "c": 2}}),
        ({"a": [{"name": "x", "b": 1}]}, "{a: {x: {b: 2}}}", {"a": [{"name": "x", "b": 2}]}),
        ({"a": [{"name": "x"}]}, "{a: {y: {c: 3}}}", {"a": [{"name": "x"}, {"name": "y", "c": 3}]}),
        ({"a": [{"name": "x"}, {"name": "y"}]}, "{a: {x: null}}", {"a": [{"name": "y"}]}),
        ({"a": 1}, "{a: {}}", {"a": {}}),
    ],
)  # fmt: skip
def test_the_merge_rule(base: Any, extra: str, expected: Any) -> None:
    assert yaml.safe_load(merged(base, f"extra: {extra}").text) == expected


def test_a_merged_line_leads_back_to_its_key_and_no_other() -> None:
    made = merged({"name": lambda v: v.plan["name"], "a": {"b": 1}}, "extra: {a: {c: 2}, d: [1, 2]}")
    keys = {line: span.keys for span in made.lines for line in range(span.first, span.last + 1)}
    found = {row.strip(): keys[number] for number, row in enumerate(made.text.splitlines(), 1)}
    assert found["name: hello"] == ("name",) and found["b: 1"] == ()
    assert found["c: 2"] == ("options.extra.a.c",) and found["- 1"] == ("options.extra.d",)


def test_the_name_of_an_item_that_is_added_leads_back_to_what_adds_it() -> None:
    made = merged({"a": [{"name": "x"}]}, "extra: {a: {z: {b: 1, c: [{d: 2}]}, x: {e: 3}}}")
    keys = {line: span.keys for span in made.lines for line in range(span.first, span.last + 1)}
    found = {row.strip(): keys[number] for number, row in enumerate(made.text.splitlines(), 1)}
    assert found["- name: z"] == ("options.extra.a.z.b", "options.extra.a.z.c")
    assert found["- name: x"] == (), "which is there without"


@pytest.mark.parametrize(
    ("extra", "keys"),
    [
        ("{count: 1}", ["backend.extra.count"]),
        ("{spec: {x: {image: y}}}", ["backend.extra.spec.x.image"]),
        ("{spec: null}", ["backend.extra.spec"]),
        ("{spec: {x: [1]}}", ["backend.extra.spec.x"]),
        ("{count: {deep: 1}, other: 1}", ["backend.extra.count.deep"]),
        ("{spec: {x: {pull: always}}}", []),
    ],
)
def test_what_the_plan_says_is_refused(extra: str, keys: list[str]) -> None:
    found = list(check_extra_entries(options(f"extra: {extra}").extra, PROTECTED))
    assert [diagnostic.key for diagnostic in found] == keys
    assert {diagnostic.code for diagnostic in found} <= {"JC4600"}


@pytest.mark.parametrize(
    "extra",
    [
        'export: "A=1,2"', "export: NONE", "export-file: /x", "array: 0-3", "wait: true", "test-only: true",
        "clusters: other", "gpus-per-socket: 1", "error: x.log", "no-requeue: true", "distribution: cyclic",
        "mem-bind: local", "tres-bind: none", "gpu-bind: none",
    ],
)  # fmt: skip
def test_an_option_of_sbatch_that_would_break_a_run_is_refused(extra: str) -> None:
    words = ("backend=slurm", "time=2h", f"backend.extra={{{extra}}}")
    assert [each.key for each in found("JC4600", words=words)] == [f"backend.extra.{extra.partition(':')[0]}"]


@pytest.mark.parametrize(
    ("key", "value", "instead"),
    [
        ("extra.distribution", "cyclic", "backend.distribution"),
        ("extra.mem-bind", "local", "backend.srun_extra.mem-bind"),
        ("srun_extra.mpi", "pmix", "backend.mpi"),
        ("srun_extra.cpu-bind", "cores", "backend.cpu_bind"),
        ("srun_extra.ntasks", "4", "nodes, procs and launcher"),
        ("srun_extra.container-image", "x", "image, container, mounts and container.options"),
    ],
)
def test_an_option_that_jobc_sets_names_the_key_for_it(key: str, value: str, instead: str) -> None:
    (diagnostic,) = found("JC4600", words=("backend=slurm", "nodes=2", f"backend.{key}={value}"))
    assert diagnostic.hint == f"remove backend.{key}, and use {instead}"


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("extra.cpu-bind", "remove backend.extra.cpu-bind, and use backend.cpu_bind"),  # of srun
        ("extra.unbuffered", "remove backend.extra.unbuffered, and use backend.srun_extra.unbuffered"),
        ("extra.nodel", "remove backend.extra.nodel, and use queue.nodelist"),  # which getopt_long takes for --nodelist
        ("srun_extra.unbuf", "did you mean backend.srun_extra.unbuffered?"),
        ("srun_extra.treewidth", "remove backend.srun_extra.treewidth, or backend.version=23.11 if the site has"),
        ("srun_extra.batch", "remove backend.srun_extra.batch, and use backend.extra.batch"),  # of sbatch
    ],
)
def test_an_option_of_the_wrong_program_or_version_leads_to_the_right_one(key: str, hint: str) -> None:
    (diagnostic,) = found("JC4340", words=("backend=slurm", "nodes=2", f"backend.{key}=true"))
    assert diagnostic.hint.startswith(hint)


def test_an_option_near_a_known_one_can_be_allowed_for_a_plugin_of_the_site() -> None:
    (near,) = found("JC4340", words=("backend=slurm", "backend.extra.partion=x"))
    assert near.severity is Severity.ERROR and near.judgment
    (beginning,) = found("JC4340", words=("backend=slurm", "backend.extra.nodel=x"))
    assert not beginning.judgment


@pytest.mark.parametrize(("exclusive", "refused"), [("true", 1), ("false", 0)])
def test_oversubscribe_would_undo_exclusive(exclusive: str, refused: int) -> None:
    words = ("backend=slurm", "time=2h", f"queue.exclusive={exclusive}", "backend.extra={oversubscribe: true}")
    assert len(found("JC4600", words=words)) == refused


@pytest.mark.parametrize("extra", ["propagate: STACK", "input: /dev/null", "wait-all-nodes: 1", "get-user-env: true"])
def test_an_option_that_leaves_the_plan_as_it_is_may_be_added(extra: str) -> None:
    assert not found("JC4600", words=("backend=slurm", "time=2h", f"backend.extra={{{extra}}}"))
