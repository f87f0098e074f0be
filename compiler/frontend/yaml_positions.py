"""Locate the parts of a YAML document: the key above a value, and the lines of each value.

In:  the text of a valid document.
Out: positions and lines, counted from 1.
"""

from collections.abc import Iterator
from dataclasses import replace

import yaml

from ..diagnostics.origin import Origin
from .yaml_reader import Loader


def enclosing_key_position(text: str, value: Origin, levels: int) -> Origin:
    """Return the position of the mapping key, or list item, that encloses a value `levels` levels further up, counting
    mappings and lists of mappings. Return the value's own position if there is no such key, as for the values of an
    alias.
    """

    def enclosing_keys(node: yaml.Node, above: tuple[yaml.Mark, ...]) -> Iterator[tuple[yaml.Mark, ...]]:
        mark = node.start_mark
        if isinstance(node, yaml.MappingNode):
            for key, inner in node.value:
                yield from enclosing_keys(inner, (*above, key.start_mark))
        elif isinstance(node, yaml.SequenceNode):
            of_mappings = _holds_mappings(node)
            for item in node.value:
                yield from enclosing_keys(item, (*above, item.start_mark) if of_mappings else above)
        elif (mark.line + 1, mark.column + 1) == (value.line, value.column):
            yield above

    document = yaml.compose(text, Loader=Loader) if levels else None
    marks = next(enclosing_keys(document, ()), ()) if document else ()
    if len(marks) <= levels:
        return value
    mark = marks[-1 - levels]
    return replace(value, line=mark.line + 1, column=mark.column + 1)


def value_lines(text: str) -> Iterator[tuple[range, int]]:
    """For each value without nested keys, yield its lines, from its key to its end, and the line of the key that
    contains the enclosing mapping. At the top level, that line is 0.
    """

    def last_node_line(node: yaml.Node) -> int:
        if isinstance(node, yaml.SequenceNode) and node.value and not node.flow_style:
            return last_node_line(node.value[-1])  # a list's end mark is at the beginning of the next key
        return int(node.end_mark.line + (node.end_mark.column > 0))

    def visit_values(node: yaml.Node, first: int, above: int, is_item: bool = False) -> Iterator[tuple[range, int]]:
        if node.start_mark.line + 1 < first:
            yield range(first, first + 1), above  # an alias: its node has the anchor's position
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                yield from visit_values(value, key.start_mark.line + 1, 0 if is_item else first)
        elif isinstance(node, yaml.SequenceNode) and _holds_mappings(node):
            for item in node.value:
                if item.start_mark.line >= node.start_mark.line:  # not an alias
                    yield from visit_values(item, item.start_mark.line + 1, first, is_item=True)
        else:
            yield range(first, last_node_line(node) + 1), above

    if document := yaml.compose(text, Loader=Loader):
        yield from visit_values(document, 0, 0)


def _holds_mappings(node: yaml.SequenceNode) -> bool:
    return any(isinstance(item, yaml.MappingNode) for item in node.value)
