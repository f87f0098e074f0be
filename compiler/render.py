"""Turns views of the plan into file text, and notes for every line which plan keys it depends on.

Three forms: a Jinja template that reads like the file it makes, a YAML or JSON document built as data, a host table.
A line depends on what was read while it was made, and on what the `if` and `for` around it read.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

import jinja2
import yaml
from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from .artifact import Artifact, LineRange
from .reads import watch
from .words import Concat, RuntimeVar, Word

COMPILED = "__compiled__"  # folder beside templates, made at wheel build; see precompile()


# ---- quoting: the only place where a value becomes shell text -------------------------------------------------------


def sh(value: Word | int | Iterable[Word]) -> str:
    """Shell text of one word, or of several joined by spaces. Literals are quoted, runtime variables expanded."""
    if isinstance(value, RuntimeVar):
        return f'"${{{value.variable}}}"'
    if isinstance(value, Concat):
        return "".join(sh(part) for part in value)
    if isinstance(value, (tuple, list)):
        return " ".join(sh(part) for part in value)
    return shlex.quote(str(value))


def comment(value: object) -> str:
    """User text inside a `#` comment: one line, no control characters."""
    return "".join(c if c.isprintable() else "?" for c in str(value))


# ---- reads and lines ------------------------------------------------------------------------------------------------


@dataclass
class _Trace:
    """The reads of one rendering. pending: since the last piece; guards: one set per open `if` or `for`; line: in the
    template, of the piece that comes next.
    """

    pending: list[str] = field(default_factory=list)
    guards: list[list[str]] = field(default_factory=list)
    line: int = 1

    def at(self, line: int) -> str:
        self.line = line
        return ""

    def note(self, key: str) -> None:
        self.pending.append(key)

    def push(self) -> str:
        self.guards.append([])
        return ""

    def pop(self) -> str:
        self.guards.pop()
        return ""

    def guard(self, test: Any) -> Any:
        """An `if` was decided: what its test read holds for the whole block."""
        truth = bool(test)
        self.guards[-1] += self.take()
        return truth

    def over(self, iterable: Any) -> Any:
        """A `for` begins: what its iterable read holds for every round."""
        self.guards[-1] += self.take()
        self.guards.append([])
        return iterable

    def item(self) -> str:
        """A `for` took its next item: what that read holds for this round."""
        self.guards[-1] = self.take()
        return ""

    def take(self) -> list[str]:
        taken, self.pending = self.pending, []
        return taken

    def keys(self) -> tuple[str, ...]:
        """Keys of the piece just made."""
        found = dict.fromkeys(self.take())
        for guard in self.guards:
            found.update(dict.fromkeys(guard))
        return tuple(found)


class _Lines:
    """Collects (text, keys, source) pieces into lines; two pieces on one line unite their keys."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.rows: list[tuple[dict[str, None], str]] = [({}, "")]

    def add(self, text: str, keys: Iterable[str], file: str, line: int, constant: bool) -> None:
        """line: in `file`, 0 for none; constant: template text, so the source line moves along with it."""
        self.text.append(text)
        for i, part in enumerate(text.split("\n")):
            if i:
                self.rows.append(({}, ""))
            if part or i < text.count("\n"):
                found, source = self.rows[-1]
                found.update(dict.fromkeys(keys))
                place = f"{file}:{line + i if constant else line}" if line else file
                self.rows[-1] = (found, source or place)

    def ranges(self) -> tuple[LineRange, ...]:
        rows = self.rows[:-1] if not self.rows[-1][1] else self.rows
        return tuple(LineRange(i, i, tuple(keys), source) for i, (keys, source) in enumerate(rows, 1))


class _Guards(NodeTransformer):
    """Makes a template tell the trace where its `if` and `for` blocks begin and end, and its pieces their lines."""

    @staticmethod
    def _call(method: str, *args: nodes.Expr) -> nodes.Call:
        target = nodes.Getattr(nodes.Name("_trace", "load"), method, "load")
        return nodes.Call(target, list(args), [], None, None)

    def _do(self, method: str, *args: nodes.Expr) -> nodes.Stmt:
        return nodes.ExprStmt(self._call(method, *args))

    def visit_If(self, node: nodes.If) -> list[nodes.Node]:
        for test in [node, *node.elif_]:
            test.test = self._call("guard", cast(nodes.Expr, test.test))
            test.body = self._all(test.body)
        node.else_ = self._all(node.else_)
        return [self._do("push"), node, self._do("pop")]

    def visit_For(self, node: nodes.For) -> list[nodes.Node]:
        node.iter = self._call("over", cast(nodes.Expr, node.iter))
        node.body = [self._do("item"), *self._all(node.body)]
        return [self._do("push"), node, self._do("pop"), self._do("pop")]

    def visit_Output(self, node: nodes.Output) -> list[nodes.Node]:
        """One statement per piece, with its line before it: Jinja's own debug table has none for constant text."""
        made: list[nodes.Node] = []
        for piece in node.nodes:
            made += [self._do("at", nodes.Const(piece.lineno)), nodes.Output([piece])]
        return made

    def _all(self, body: list[nodes.Node]) -> list[nodes.Node]:
        return [made for child in body for made in self.visit_list(child)]


class _Environment(jinja2.Environment):
    """Jinja with our filters; `_generate` is Jinja's documented hook between parsing and code generation."""

    def _generate(
        self, source: nodes.Template, name: str | None, filename: str | None, defer_init: bool = False
    ) -> str:
        return super()._generate(_Guards().visit(source).set_environment(self), name, filename, defer_init)


@cache
def _environment(folders: tuple[str, ...], precompiled: bool = True) -> _Environment:
    loaders: list[jinja2.BaseLoader] = []
    for folder in folders:
        compiled = Path(folder, COMPILED)
        if precompiled and _fits(compiled):
            loaders.append(jinja2.ModuleLoader(str(compiled)))
        loaders.append(jinja2.FileSystemLoader(folder))
    made = _Environment(
        loader=jinja2.ChoiceLoader(loaders),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    made.filters.update(sh=sh, comment=comment)
    return made


def _fits(compiled: Path) -> bool:
    """Compiled templates are used only with the Jinja that compiled them."""
    marker = compiled / "jinja2_version"
    return marker.is_file() and marker.read_text() == jinja2.__version__


def precompile(root: Path) -> list[Path]:
    """Compile every folder named `templates` below `root` into a folder inside it; gives the folders made."""
    made = []
    for folder in sorted(p for p in root.glob("**/templates") if any(p.glob("*.j2"))):
        target = folder / COMPILED
        _environment((str(folder),), precompiled=False).compile_templates(
            str(target), extensions=["j2"], zip=None, log_function=lambda _: None
        )
        (target / "jinja2_version").write_text(jinja2.__version__)
        made.append(target)
    return made


# ---- what a backend's emit() gets -----------------------------------------------------------------------------------

Omit = object()  # returned by a document's leaf function: leave the entry out


@dataclass(frozen=True)
class Render:
    """Makes artifacts. folders: template folders, the backend's own first; views: name -> value templates see.

    label: how the template folder is named in source maps, such as `jobc:backends/local/templates`
    """

    folders: tuple[str, ...]
    labels: tuple[str, ...]
    views: Mapping[str, Any]

    def template(self, name: str, path: str, executable: bool = False, **extra: Any) -> Artifact:
        """Render one template. Raises jinja2 errors, which are our bug or the plugin's (JC9002)."""
        template = _environment(self.folders).get_template(name)
        trace, lines = _Trace(), _Lines()
        views = _watched({**self.views, **extra}, trace)
        pieces: Iterator[str] = template.root_render_func(template.new_context({**views, "_trace": trace}))
        label = next((lb for f, lb in zip(self.folders, self.labels, strict=True) if Path(f, name).exists()), "?")
        for piece in pieces:
            constant = not trace.pending
            keys = trace.keys()
            lines.add(piece, keys, f"{label}/{name}", trace.line, constant)
        return Artifact(path, "".join(lines.text), executable, lines.ranges())

    def yaml(
        self, documents: Sequence[Any], path: str, comments: Mapping[tuple[str | int, ...], str] | None = None
    ) -> Artifact:
        """Dump documents. A leaf that depends on the plan is a function of the views: `lambda v: v.plan.name`.

        comments: data path (document index first) -> comment put on the line above
        """
        keys: dict[tuple[str | int, ...], tuple[str, ...]] = {}
        plain = [self._evaluate(document, (i,), keys) for i, document in enumerate(documents)]
        chunks = [dump_yaml(document) for document in plain]
        lines = _Lines()
        for i, chunk in enumerate(chunks):
            if i:
                lines.add("---\n", (), path, 1, constant=False)
            owners = _line_owners(chunk)
            for number, text in enumerate(chunk.split("\n")[:-1], 1):
                text += "\n"
                at = (i, *owners.get(number, ()))
                if comments and at in comments and owners.get(number) != owners.get(number - 1):
                    indent = text[: len(text) - len(text.lstrip(" "))]
                    for row in comments[at].splitlines():
                        lines.add(f"{indent}# {comment(row)}\n", (), path, 1, constant=False)
                lines.add(text, _keys_of(at, keys), _data_path(at[1:]), 0, constant=False)
        return Artifact(path, "".join(lines.text), False, lines.ranges())

    def json(self, document: Any, path: str) -> Artifact:
        """One JSON document, two spaces of indent, the order as given; leaves as for yaml()."""
        keys: dict[tuple[str | int, ...], tuple[str, ...]] = {}
        plain = self._evaluate(document, (), keys)
        lines = _Lines()
        for text, at in _json_lines(plain):
            lines.add(text, _keys_of(at, keys), _data_path(at), 0, constant=False)
        return Artifact(path, "".join(lines.text), False, lines.ranges())

    def table(self, path: str, rows: Sequence[str], key: str) -> Artifact:
        """One line per row, all from one plan key: host tables."""
        text = "".join(f"{row}\n" for row in rows)
        return Artifact(path, text, False, (LineRange(1, len(rows), (key,), "table"),) if rows else ())

    def _evaluate(
        self, node: Any, at: tuple[str | int, ...], keys: dict[tuple[str | int, ...], tuple[str, ...]]
    ) -> Any:
        if isinstance(node, Mapping):
            made = {k: self._evaluate(v, (*at, k), keys) for k, v in node.items()}
            return {k: v for k, v in made.items() if v is not Omit}
        if isinstance(node, (list, tuple)):
            return [self._evaluate(v, (*at, i), keys) for i, v in enumerate(node)]
        if callable(node):
            trace = _Trace()
            views = _Views(_watched(self.views, trace))
            value = node(views)
            keys[at] = tuple(dict.fromkeys(trace.take()))
            return value if value is Omit else self._evaluate(value, at, keys)
        return node


def _watched(views: Mapping[str, Any], trace: _Trace) -> dict[str, Any]:
    """Dataclasses and mappings are watched; a plain value depends on no key."""
    kept = {name: view for name, view in views.items() if dataclasses.is_dataclass(view) or isinstance(view, Mapping)}
    return {**views, **{name: watch(view, _root(name), trace.note) for name, view in kept.items()}}


class _Views:
    def __init__(self, views: Mapping[str, Any]) -> None:
        self.__dict__.update(views)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def _root(view: str) -> str:
    """Plan keys are written bare, also those of `left_out`; those of other views carry the view's name."""
    return "" if view in ("plan", "left_out") else view


def _data_path(at: tuple[str | int, ...]) -> str:
    return f"data at {'.'.join(str(part) for part in at) or 'the top'}"


def _keys_of(at: tuple[str | int, ...], keys: Mapping[tuple[str | int, ...], tuple[str, ...]]) -> list[str]:
    return [key for n in range(len(at) + 1) for key in keys.get(at[:n], ())]


# ---- YAML and JSON text ---------------------------------------------------------------------------------------------


def dump_yaml(document: Any) -> str:
    """YAML whose every string is read back as that string by YAML 1.1 and 1.2 readers; block style, order kept."""
    return str(yaml.dump(document, Dumper=_dumper(), sort_keys=False, width=10**9, allow_unicode=True))


@cache
def _dumper() -> Any:
    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # libyaml: 6 times faster
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        plain = value and all((c.isalnum() and c.isascii()) or c in "-_./" for c in value) and value[0].isalpha()
        words = ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf")
        style = None if plain and value.lower() not in words else '"'
        if "\n" in value and value.isprintable() is False and all(c.isprintable() or c == "\n" for c in value):
            style = "|" if not value.startswith((" ", "\n")) and " \n" not in value else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return Dumper


def _line_owners(text: str) -> dict[int, tuple[str | int, ...]]:
    """Line number -> data path of the innermost entry that begins at or covers it."""
    owners: dict[int, tuple[str | int, ...]] = {}

    def walk(node: yaml.Node, at: tuple[str | int, ...], first: int) -> None:
        last = node.end_mark.line + (1 if node.end_mark.column else 0)
        for line in range(first, max(last, first) + 1):
            owners[line] = at
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                walk(value, (*at, key.value), key.start_mark.line + 1)
        elif isinstance(node, yaml.SequenceNode):
            for i, value in enumerate(node.value):
                walk(value, (*at, i), value.start_mark.line + 1)

    root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    if root is not None:
        walk(root, (), 1)
    return owners


def _json_lines(node: Any) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    def walk(value: Any, at: tuple[str | int, ...], head: str, tail: str, depth: int) -> Iterator[Any]:
        pad = "  " * depth
        if isinstance(value, dict) and value:
            yield f"{pad}{head}{{\n", at
            for i, (key, inner) in enumerate(value.items()):
                comma = "," if i < len(value) - 1 else ""
                yield from walk(inner, (*at, key), f"{json.dumps(key, ensure_ascii=False)}: ", comma, depth + 1)
            yield f"{pad}}}{tail}\n", at
        else:
            yield f"{pad}{head}{json.dumps(value, ensure_ascii=False)}{tail}\n", at

    yield from walk(node, (), "", "", 0)


Emit = Callable[..., list[Artifact]]
