"""Find those errors in a defaults list that Hydra 1.3 reports without a file and line.

In:  the parsed list and its YAML node.
Out: the invalid node, what is wrong with it, and what to write instead.
"""

from collections.abc import Iterator
from typing import Any

import yaml

_LINE = "- override /model: mlp"
MOST_ENTRIES = 500  # every option of a group counts; Hydra takes 0.5 ms for each of them, once per override


def find_defaults_list_errors(entries: Any, node: yaml.Node) -> Iterator[tuple[yaml.Node, str, str]]:
    if not isinstance(entries, list):
        yield node, "this section is not a list", "defaults: [{override /model: mlp}]"
        return
    if sum(map(_count_options, entries)) > MOST_ENTRIES:
        yield node, f"this section has more than {MOST_ENTRIES} of them", "put the values into one file"
        return
    for entry, entry_node in zip(entries, node.value, strict=True):
        if isinstance(entry, dict):
            yield from _check_group_entry(entry, entry_node)
        elif not isinstance(entry, str) or not entry:
            yield _non_text_problem(entry, entry_node)


def _count_options(entry: Any) -> int:
    options = entry.values() if isinstance(entry, dict) else ()
    return max(1, len(options), sum(len(option) for option in options if isinstance(option, list)))


def _check_group_entry(entry: dict[Any, Any], node: yaml.Node) -> Iterator[tuple[yaml.Node, str, str]]:
    if len(entry) != 1:
        yield node, "this entry names several groups" if entry else "this entry does not name a group", _LINE
        return
    ((group, option),) = entry.items()
    key_node, option_node = node.value[0]
    if not isinstance(group, str) or not group:
        yield key_node, "this entry does not name a group", _LINE
    elif isinstance(option, list):
        items = zip(option, option_node.value, strict=True)
        yield from (_non_text_problem(item, item_node) for item, item_node in items if not isinstance(item, str))
    elif option is not None and not isinstance(option, str):
        yield _non_text_problem(option, option_node)


def _non_text_problem(value: Any, node: yaml.Node) -> tuple[yaml.Node, str, str]:
    if value is None or value == "":
        return node, "this entry is empty", "remove the entry"
    if isinstance(value, (list, dict)):
        return node, f"this entry is a {'list' if isinstance(value, list) else 'mapping'}", _LINE
    return node, f"{node.value} is not text", f'"{node.value}", in quotes, if the file has this name'
