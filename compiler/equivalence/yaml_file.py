"""An emitted YAML file as nested Sections: a missing key, or a value of another type, is Unreadable with its line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import yaml

from .. import amounts
from .reading import Unreadable


class Section(dict[str, Any]):
    """A mapping of a YAML file. place: FILE:LINE of its first key."""

    place: str = ""

    def __missing__(self, key: str) -> Any:
        raise Unreadable(f"{self.place}: there is no {key} beside {', '.join(map(str, list(self)[:4])) or 'nothing'}")

    def whole(self, key: str) -> int:
        """A whole number."""
        value = self[key]
        if isinstance(value, bool) or not isinstance(value, int):
            raise Unreadable(f"{self.place}: {key} is {value!r}, and must be a whole number")
        return value

    def section(self, key: str) -> Section:
        value = self[key]
        if not isinstance(value, Section):
            raise Unreadable(f"{self.place}: {key} is {value!r}, and must be a mapping")
        return value

    def sections(self, key: str) -> list[Section]:
        """A list of mappings."""
        value = self[key]
        if not isinstance(value, list) or not all(isinstance(item, Section) for item in value):
            raise Unreadable(f"{self.place}: {key} must be a list of mappings")
        return value


def read_documents(files: Mapping[str, str], path: str) -> list[Section]:
    """The documents of a file, those without content left out. Raises Unreadable with file, line and column."""

    class Loader(yaml.SafeLoader):
        pass

    def section(loader: yaml.SafeLoader, node: yaml.MappingNode) -> Section:
        made = Section({str(k): value for k, value in loader.construct_mapping(node, deep=True).items()})
        if len(made) < len(node.value):
            raise Unreadable(f"{path}:{node.start_mark.line + 1}: a key stands there twice")
        made.place = f"{path}:{node.start_mark.line + 1}"
        return made

    Loader.add_constructor("tag:yaml.org,2002:map", section)
    try:
        found = [document for document in yaml.load_all(files[path], Loader) if document]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else path
        raise Unreadable(f"{place}: this is no YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise Unreadable(f"{path}: this is no YAML: {str(error).splitlines()[0]}") from None
    for document in found:
        if not isinstance(document, Section):
            raise Unreadable(f"{path}: it must be a mapping, and is {str(document)[:60]!r}")
    if not found:
        raise Unreadable(f"{path}: it is empty")
    return found


def quantity(text: object, of: str) -> int:
    """Bytes, or a count, of a quantity of Kubernetes such as `64.5Gi`; of: what it is, for the message."""
    try:
        return math.ceil(amounts.quantity(text))
    except ValueError as error:
        raise Unreadable(f"{of}: {error}") from None
