"""With fold=True, YAML has short mappings and lists on one line, and `jobc why` still finds the keys of the line."""

from __future__ import annotations

import yaml

from jobc.compiler.emit.render import Render, TracedValue

DOCUMENT = {
    "metadata": {"name": TracedValue("x", ("name",)), "labels": {"job": TracedValue("x", ("name",))}},
    "volumes": [{"name": "shm", "emptyDir": {"sizeLimit": TracedValue("1Gi", ("shm",))}}],
    "command": ["python3", TracedValue("a.py", ("command",))],
    "trainer": {"numNodes": 2},
    "long": ["a" * 40, "b" * 40],
}


def test_short_nodes_are_on_one_line_but_not_below_a_comment() -> None:
    made = Render((), (), {}).yaml([DOCUMENT], "job.yaml", {(0, "trainer", "numNodes"): "note"}, fold=True)
    assert made.text.split("\n")[:9] == [
        "metadata:",
        "  name: x",
        "  labels: {job: x}",
        "volumes:",
        '- {name: shm, emptyDir: {sizeLimit: "1Gi"}}',
        "command: [python3, a.py]",
        "trainer:",
        "  # note",
        "  numNodes: 2",
    ]
    assert f"- {'a' * 40}\n" in made.text
    assert yaml.safe_load(made.text)["volumes"] == [{"name": "shm", "emptyDir": {"sizeLimit": "1Gi"}}]
    keys = {line: span.keys for span in made.lines for line in range(span.first, span.last + 1)}
    assert [keys[line] for line in (1, 3, 5, 6)] == [(), ("name",), ("shm",), ("command",)]
