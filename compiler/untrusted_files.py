"""Read small untrusted files in the compiler. This builds on runtime/system/untrusted_files.py, which also runs on
nodes.
"""

from pathlib import Path

from ..runtime.system.untrusted_files import (
    KIB,
    MIB,
    MOST_DEPTH,
    Unreadable,
    decode_utf8,
    open_regular,
    parse_json,
    read_bytes,
    read_json,
    read_text,
)

__all__ = [
    "KIB",
    "MIB",
    "Unreadable",
    "decode_utf8",
    "open_regular",
    "parse_json",
    "read_bytes",
    "read_json",
    "read_text",
    "require_shallow_yaml",
]


def require_shallow_yaml(path: str | Path, text: str) -> None:
    """Raise Unreadable for YAML nested deeper than MOST_DEPTH, which could overflow the C stack in libyaml's composer.

    Raises yaml.YAMLError for text that is not YAML.
    """
    import yaml

    if sum(map(text.count, "[{-:?")) <= MOST_DEPTH:  # each nesting level needs one of these characters
        return
    depth = 0
    for event in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_DEPTH:
            raise Unreadable(path, f"is nested more than {MOST_DEPTH} levels deep")
