"""Format a cluster profile: facts and answers as YAML that people can read and edit.

In:  facts (key, value, source) in any order.
Out: text whose lines are in the order of _SECTIONS.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from ...plan.shell_quoting import comment
from .probe import Fact

_SECTIONS = {  # in file order, each with the comment above it; all other sections come after `queue`
    "backend": "Backend options for this site.",
    "queue": "",
    "storage": "",
    "site": "Facts about the cluster, which jobc checks before a job starts. Facts you leave out are not checked.",
}
_COLUMN = 26  # column where comments begin


def format_profile(name: str, facts: Sequence[Fact], groups: Sequence[str], dropped: Sequence[Fact]) -> str:
    """Return the profile of site NAME. groups: keys whose value is an option; dropped: facts that do not compile."""
    chosen = [fact for fact in facts if fact.key in groups]
    tree: dict[str, Any] = {}
    for fact in facts:
        if fact.key and fact.key not in groups:
            _add_fact(tree, fact.key.split("."), fact)
    title = f"Site {name}, for `jobc cluster={name} …`. Written by `jobc init`; edit it freely."
    out = ["# @package _global_", f"# {title}"]
    if chosen:
        out += ["", "defaults:"]
        out += [_append_source(f"  - override /{fact.key}: {_format_scalar(fact.value)}", fact.by) for fact in chosen]
    for key in sorted(tree, key=lambda key: _section_sort_key(key, tree[key])):
        out += ["", *([f"# {_SECTIONS[key]}"] if _SECTIONS.get(key) else []), *_format_key(key, tree[key], 0)]
    shown = [fact for fact in facts if not fact.key]
    notes = [f"#   {comment(fact.value)}  ({comment(fact.by)})" for fact in shown]
    notes += [f"#   not understood: {comment(f'{fact.key}={fact.value}  ({fact.by})')}" for fact in dropped]
    return "\n".join([*out, *(["", "# Also detected:", *notes] if notes else [])]) + "\n"


def _section_sort_key(key: str, value: Any) -> tuple[bool, float]:
    """Return the sort key: single keys, then sections in the order of _SECTIONS. Other sections come after `queue`."""
    order = list(_SECTIONS)
    return isinstance(value, dict), order.index(key) if key in order else order.index("queue") + 0.5


def _add_fact(tree: dict[str, Any], keys: Sequence[str], fact: Fact) -> None:
    head, *subkeys = keys
    if head == "partitions":  # a partition may have a dot in its name
        subkeys = [".".join(subkeys)] if subkeys else []
    if not subkeys:
        tree[head] = fact
    elif isinstance(tree.setdefault(head, {}), dict):
        _add_fact(tree[head], subkeys, fact)


def _format_key(key: str, value: Any, depth: int) -> list[str]:
    head = f"{'  ' * depth}{_format_scalar(key)}:"
    if isinstance(value, Fact):
        return [_append_source(f"{head} {_format_scalar(value.value)}", value.by)]
    sources = {inner.by if isinstance(inner, Fact) else None for inner in value.values()}
    if len(value) > 1 and len(sources) == 1 and None not in sources:  # all from one lookup
        value = {name: Fact(inner.key, inner.value, "") for name, inner in value.items()}
        head = _append_source(head, sources.pop() or "")
    return [head, *(line for name, inner in value.items() for line in _format_key(name, inner, depth + 1))]


def _append_source(text: str, source: str) -> str:
    return f"{text:<{_COLUMN - 1}} # {comment(source)}" if source else text


def _format_scalar(text: str) -> str:
    """Return text for YAML, in quotes unless it is safe without them. Lists and mappings in brackets are unchanged."""
    if re.fullmatch(r"\[[^\[\]]*\]|\{.*\}", text) or re.fullmatch(r"[\w./][\w./+:@=-]*(?<!:)", text, re.ASCII):
        return text
    return json.dumps(text, ensure_ascii=False)
