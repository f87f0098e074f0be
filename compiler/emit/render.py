"""Render views of the plan to files, and record which plan keys each line depends on.

A file is a Jinja template that reads like its output, a YAML or JSON document built as data, or a list of lines. A line
depends on the keys that were read to render it, and on those that the enclosing `if` and `for` blocks read.
"""

import dataclasses
import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from ...runtime.system.frozen_dataclass import dataclass
from ..plan.read_tracking import track_reads
from ..plan.shell_quoting import UnquotableText, checked_table_row, comment
from .artifact import Artifact, LineRange
from .line_trace import LineCollector, PlanKeyTrace, RefusedText, TextRefusedError
from .templating import template_environment
from .yaml_json import fold_short_nodes, json_lines_with_paths, yaml_lines_with_paths


class TemplateError(Exception):
    """Raised for a template that cannot be rendered. The message names the template, the line and the reason."""


Omit = object()  # returned by a leaf function to omit the entry

HEAD = ""  # data path suffix for the line of a mapping itself, without the lines of its entries

Leaf = Callable[[Any], Any]  # leaf of a document: a function of the views


class PlanPathLeaf:
    """A leaf that reads the value at a path, such as `of.plan.queue.priority`."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __getattr__(self, name: str) -> "PlanPathLeaf":
        if name.startswith("_"):
            raise AttributeError(name)
        return PlanPathLeaf(*self._names, name)

    def __call__(self, views: Any) -> Any:
        return functools.reduce(getattr, self._names, views)


of = PlanPathLeaf()


@dataclass(frozen=True)
class Given:
    """Leaf that is omitted if its value is None. A mapping with only such leaves depends on the keys of all of them."""

    leaf: Leaf

    def __call__(self, views: Any) -> Any:
        value = self.leaf(views)
        return Omit if value is None else value


@dataclass(frozen=True)
class WholePlanView:
    """View `whole`: values computed from the whole plan (see Render.with_digest())."""

    digest: str


@dataclass(frozen=True)
class DigestLeaf:
    """Leaf with the view `whole`, for documents that are rendered without Render.with_digest()."""

    digest: str
    leaf: "Leaf | JsonTextLeaf"


@dataclass(frozen=True)
class JsonTextLeaf:
    """Leaf that writes a tree as JSON text on one line, for documents that only programs read.

    by: function that reads the values on which the choice of entries depends.
    """

    tree: Mapping[str, Any]
    by: Leaf


class TracedValue(NamedTuple):
    """Leaf that has already been evaluated. The value has JSON types.

    keys: the plan keys that it was read from.
    """

    value: Any
    keys: tuple[str, ...]


def evaluate_document(tree: Any, plan: object, options: object, digest: str) -> Any:
    """Return a document with its functions evaluated, as the engine will read it. digest: WholePlanView.digest"""
    return Render((), (), {"plan": plan, "options": options}).with_digest(digest)._evaluate_node(tree, (), {})


@dataclass(frozen=True)
class Render:
    """Renders artifacts.

    folders: template folders, the backend's own first.
    views: name -> value in templates.
    labels: names of the template folders in source maps, such as `jobc:backends/local/templates`.
    """

    folders: tuple[str, ...]
    labels: tuple[str, ...]
    views: Mapping[str, Any]

    def with_digest(self, digest: str) -> "Render":
        """Return a renderer whose templates and leaves can read `whole.digest`, which `jobc why` traces as `digest`."""
        return replace(self, views={**self.views, "whole": WholePlanView(digest)})

    def template(self, name: str, path: str, executable: bool = False, **extra: Any) -> Artifact:
        """Render one template. Raises TextRefusedError, or TemplateError for a bug in jobc or a plugin (JC9002).

        extra: additional names for the template. A plain value is not traced to any key. To let `jobc why` find the
        keys, pass a function, such as memory=…, and call it on traced values: `{{ memory(plan.resources.mem_bytes) |
        directive }}`.
        """
        trace, lines = PlanKeyTrace(), LineCollector()
        label = next((lb for f, lb in zip(self.folders, self.labels, strict=True) if Path(f, name).exists()), "?")
        try:
            template = template_environment(self.folders).get_template(name)
            views = _track_views({**self.views, **extra}, trace)
            pieces: Iterator[str] = template.root_render_func(template.new_context({**views, "_trace": trace}))
            for piece in pieces:
                constant = not trace.pending
                lines.add_keys_to_current_line(trace.take_ended_keys())
                keys = trace.take_current_keys()
                lines.add_piece(piece, keys, f"{label}/{name}", trace.line, constant)
        except (Exception, SystemExit) as error:  # a template may raise any exception; the position is added
            line = getattr(error, "lineno", None) or trace.line  # a TemplateSyntaxError has its own line
            reason = f"{type(error).__name__}: {getattr(error, 'message', None) or error}"
            raise TemplateError(f"{label}/{name}:{line}: {reason}") from error
        if trace.refused:
            raise TextRefusedError(trace.refused)
        return Artifact(path, "".join(lines.text), executable, lines.line_ranges())

    def record_choice(self, artifact: Artifact, by: Callable[[Any], Any]) -> Artifact:
        """Record that the plan keys which `by` reads (such as `of.plan.name`) decide whether this file is emitted."""
        trace = PlanKeyTrace()
        by(SimpleNamespace(**_track_views(self.views, trace)))
        return replace(artifact, chosen=tuple(dict.fromkeys(trace.take_pending_keys())))

    def yaml(
        self,
        documents: Sequence[Any],
        path: str,
        comments: Mapping[tuple[str | int, ...], str | Leaf] | None = None,
        fold: bool = False,
    ) -> Artifact:
        """Render YAML documents. A leaf that depends on the plan is a function of the views, such as `of.plan.name`.

        comments: data path (document index first) -> comment for the line above that entry. A comment is text or a
        function of the views.
        fold: write short mappings and lists on one line.
        """
        keys: dict[tuple[str | int, ...], tuple[str, ...]] = {}
        plain = [self._evaluate_node(document, (i,), keys) for i, document in enumerate(documents)]
        if fold:
            plain = [fold_short_nodes(document, (i,), tuple(comments or ())) for i, document in enumerate(plain)]
        lines = LineCollector()
        for i, document in enumerate(plain):
            if i:
                lines.add_line("---\n", (), f"{path}:1")
            above = None
            for text, owner in yaml_lines_with_paths(document):
                data_path = (i, *owner)
                if comments and data_path in comments and owner != above:
                    indent = text[: len(text) - len(text.lstrip(" "))]
                    comment_keys: dict[tuple[str | int, ...], tuple[str, ...]] = {}
                    for row in self._evaluate_node(comments[data_path], (), comment_keys).split("\n"):
                        lines.add_line(f"{indent}# {comment(row)}\n", comment_keys.get((), ()), f"{path}:1")
                below = _keys_below_path(data_path, keys) if fold and text.endswith(("}\n", "]\n")) else []
                lines.add_line(text, _keys_at_path(data_path, keys) + below, _data_path(owner))
                above = owner
        return Artifact(path, "".join(lines.text), False, lines.line_ranges())

    def json(self, document: Any, path: str, expand_lists: bool = False) -> Artifact:
        """Render one JSON document with an indent of two spaces, in the given order. Leaves are as in yaml().

        expand_lists: write each item of a list on a separate line.
        """
        keys: dict[tuple[str | int, ...], tuple[str, ...]] = {}
        plain = self._evaluate_node(document, (), keys)
        lines = LineCollector()
        for text, data_path in json_lines_with_paths(plain, expand_lists):
            lines.add_line(text, _keys_at_path(data_path, keys), _data_path(data_path))
        return Artifact(path, "".join(lines.text), False, lines.line_ranges())

    def line_file(self, path: str, rows: Sequence[str], key: str) -> Artifact:
        """Render a file with one line per row. All rows depend on one plan key. Raises TextRefusedError."""
        refused = []
        for row in rows:
            try:
                checked_table_row(row)
            except UnquotableText as error:
                refused.append(RefusedText((key,), row, f"line of {path}", str(error)))
        if refused:
            raise TextRefusedError(refused)
        text = "".join(f"{row}\n" for row in rows)
        return Artifact(path, text, False, (LineRange(1, len(rows), (key,), "table"),) if rows else ())

    def _evaluate_node(
        self, node: Any, data_path: tuple[str | int, ...], keys: dict[tuple[str | int, ...], tuple[str, ...]]
    ) -> Any:
        if isinstance(node, (str, int, float)) or node is None:
            return node
        if isinstance(node, TracedValue):
            keys[data_path] = node.keys
            return node.value
        if callable(node):
            trace, views = self._traced_views
            trace.take_pending_keys()  # discard the keys that a failed leaf read
            value = node(views)
            keys[data_path] = tuple(dict.fromkeys(trace.take_pending_keys()))
            return value if value is Omit else self._evaluate_node(value, data_path, keys)
        if isinstance(node, Mapping):
            values = {k: self._evaluate_node(v, (*data_path, k), keys) for k, v in node.items()}
            if node and all(isinstance(v, Given) for v in node.values()):
                head_path = (*data_path, HEAD)
                keys[head_path] = tuple(dict.fromkeys(key for k in node for key in keys.get((*data_path, k), ())))
            return {k: v for k, v in values.items() if v is not Omit}
        if isinstance(node, (list, tuple)):
            items: list[Any] = []
            for inner in node:
                item_path = (*data_path, len(items))
                keys.pop(item_path, None)  # left by an omitted item
                value = self._evaluate_node(inner, item_path, keys)
                items += [] if value is Omit else [value]
            return items
        if isinstance(node, DigestLeaf):
            return self.with_digest(node.digest)._evaluate_node(node.leaf, data_path, keys)
        if isinstance(node, JsonTextLeaf):
            of_tree: dict[tuple[str | int, ...], tuple[str, ...]] = {}
            tree = self._evaluate_node(node.tree, (), of_tree)
            self._evaluate_node(node.by, (HEAD,), of_tree)
            keys[data_path] = tuple(dict.fromkeys(key for found in of_tree.values() for key in found))
            return json.dumps(tree, ensure_ascii=False)
        return node

    @functools.cached_property
    def _traced_views(self) -> tuple[PlanKeyTrace, SimpleNamespace]:
        trace = PlanKeyTrace()
        return trace, SimpleNamespace(**_track_views(self.views, trace))


def _track_views(views: Mapping[str, Any], trace: PlanKeyTrace) -> dict[str, Any]:
    """Return the views, with dataclasses and mappings wrapped to record reads.

    Plain values are not traced to any key.
    """
    roots = {"plan": "", "left_out": "", "whole": ""}  # prefixes of the keys, if not the view's name
    return {
        name: track_reads(view, roots.get(name, name), trace.record_key)
        if dataclasses.is_dataclass(view) or isinstance(view, Mapping)
        else view
        for name, view in views.items()
    }


def _data_path(path: tuple[str | int, ...]) -> str:
    return f"data at {'.'.join(str(part) for part in path) or 'the top'}"


def _keys_below_path(path: tuple[str | int, ...], keys: Mapping[tuple[str | int, ...], tuple[str, ...]]) -> list[str]:
    return [key for place, found in keys.items() if place[: len(path)] == path != place for key in found]


def _keys_at_path(path: tuple[str | int, ...], keys: Mapping[tuple[str | int, ...], tuple[str, ...]]) -> list[str]:
    return [
        key for prefix in (*(path[:n] for n in range(len(path) + 1)), (*path, HEAD)) for key in keys.get(prefix, ())
    ]
