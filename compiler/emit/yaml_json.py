"""Dump YAML and JSON documents, and find the entry that each line belongs to."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import yaml

from ..plan.flat_lines import to_json

DataPath = tuple[str | int, ...]  # keys and indices
MAX_ONE_LINE = 80  # characters


class OneLineMapping(dict[Any, Any]):
    """Mapping that is written on one line: {name: x, mountPath: /x}"""


class OneLineList(list[Any]):
    """List that is written on one line."""


def fold_short_nodes(node: Any, path: DataPath, unfolded: Sequence[DataPath]) -> Any:
    """Return the document with short list items, and short mappings and lists without sections, on one line.

    unfolded: data paths of entries that need their own line, because a comment is above them.
    """
    if not isinstance(node, (dict, list)) or not node:
        return node
    items = node.items() if isinstance(node, dict) else enumerate(node)
    folded = [(key, fold_short_nodes(value, (*path, key), unfolded)) for key, value in items]
    is_flat = not any(isinstance(value, (dict, list)) and value for _, value in folded)
    is_simple = is_flat or (len(node) == 1 and isinstance(node, dict))
    has_comment = any(place[: len(path)] == path != place for place in unfolded)
    fits = len(to_json(node)) <= MAX_ONE_LINE and not has_comment and (is_simple or isinstance(path[-1], int))
    if isinstance(node, dict):
        return OneLineMapping(dict(folded)) if fits else dict(folded)
    return OneLineList(node) if fits else [value for _, value in folded]


def to_block_yaml(document: Any) -> str:
    """Return block-style YAML in the given order. YAML 1.1 and YAML 1.2 parse every string to the same value."""
    return str(yaml.dump(document, Dumper=_make_dumper(), sort_keys=False, width=10**9, allow_unicode=True))


_MAP, _SEQ = "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"


@cache
def _make_dumper() -> Any:
    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # libyaml: 6 times faster
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent_text(dumper: Any, value: str) -> Any:
        plain = value and all((c.isalnum() and c.isascii()) or c in "-_./" for c in value) and value[0].isalpha()
        words = ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf")
        style = None if plain and value.lower() not in words else '"'
        if "\n" in value and value.isprintable() is False and all(c.isprintable() or c == "\n" for c in value):
            style = "|" if not value.startswith((" ", "\n")) and " \n" not in value else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, represent_text)
    Dumper.add_representer(OneLineMapping, lambda dumper, value: dumper.represent_mapping(_MAP, value, flow_style=True))
    Dumper.add_representer(OneLineList, lambda dumper, value: dumper.represent_sequence(_SEQ, value, flow_style=True))
    return Dumper


def yaml_lines_with_paths(document: Any) -> list[tuple[str, DataPath]]:
    """Return each line of to_block_yaml() with the path of the innermost entry that begins on that line or spans it."""
    text = to_block_yaml(document)
    owners = _line_owners(text)
    return [(f"{line}\n", owners.get(number, ())) for number, line in enumerate(text.split("\n")[:-1], 1)]


def _line_owners(text: str) -> dict[int, DataPath]:
    owners: dict[int, DataPath] = {}

    def visit_node(node: yaml.Node, path: DataPath, first: int) -> None:
        last = node.end_mark.line + (1 if node.end_mark.column else 0)
        for line in range(first, max(last, first) + 1):
            owners[line] = path
        if getattr(node, "flow_style", False):  # on one line
            return
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                visit_node(value, (*path, key.value), key.start_mark.line + 1)
        elif isinstance(node, yaml.SequenceNode):
            for i, value in enumerate(node.value):
                visit_node(value, (*path, i), value.start_mark.line + 1)

    root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    if root is not None:
        visit_node(root, (), 1)
    return owners


def json_lines_with_paths(node: Any, expand_lists: bool = False) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """Yield each line and the data path of its entry. expand_lists: one item per line, like json.dumps(indent=2)"""

    def lines_of_value(value: Any, path: tuple[str | int, ...], head: str, tail: str, depth: int) -> Iterator[Any]:
        pad = "  " * depth
        if value and (isinstance(value, dict) or (expand_lists and isinstance(value, list))):
            brackets = "{}" if isinstance(value, dict) else "[]"
            yield f"{pad}{head}{brackets[0]}\n", path
            entries = value.items() if isinstance(value, dict) else enumerate(value)
            for i, (key, inner) in enumerate(entries):
                comma = "," if i < len(value) - 1 else ""
                name = f"{to_json(key)}: " if isinstance(value, dict) else ""
                yield from lines_of_value(inner, (*path, key), name, comma, depth + 1)
            yield f"{pad}{brackets[1]}{tail}\n", path
        else:
            yield f"{pad}{head}{to_json(value)}{tail}\n", path

    yield from lines_of_value(node, (), "", "", 0)
