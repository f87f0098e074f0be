"""The Jinja environment for all templates: traced, strict, and precompiled in wheels.

Source: Jinja 3.1, "API" (environment, loaders) and "Extensions" (the syntax tree).
"""

from functools import cache
from pathlib import Path
from typing import cast

import jinja2
from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from ..plan.shell_quoting import PLACES, Inexpressible, comment, directive, raw, sh
from .check_filters import check_filters_fit_places

COMPILED = "__compiled__"  # folder next to templates, created by the wheel build; see precompile()


class _Guards(NodeTransformer):
    """Makes a template report to the trace where `if` and `for` blocks begin and end, and the line of each piece."""

    @staticmethod
    def _call(method: str, *args: nodes.Expr) -> nodes.Call:
        target = nodes.Getattr(nodes.Name("_trace", "load"), method, "load")
        return nodes.Call(target, list(args), [], None, None)

    def _do(self, method: str, *args: nodes.Expr) -> nodes.Stmt:
        return nodes.ExprStmt(self._call(method, *args))

    def visit_If(self, node: nodes.If) -> list[nodes.Node]:
        for test in [node, *node.elif_]:
            test.test = self._call("record_test", cast(nodes.Expr, test.test))
            test.body = self._all(test.body)
        node.else_ = self._all(node.else_)
        return [self._do("at", nodes.Const(node.lineno)), self._do("begin_block"), node, self._do("end_block")]

    def visit_For(self, node: nodes.For) -> list[nodes.Node]:
        node.iter = self._call("record_loop", cast(nodes.Expr, node.iter))
        node.body = [self._do("item"), *self._all(node.body)]
        begin = [self._do("at", nodes.Const(node.lineno)), self._do("begin_block")]
        return [*begin, node, self._do("end_block"), self._do("end_block")]

    def visit_Output(self, node: nodes.Output) -> list[nodes.Node]:
        """Emit each piece as a statement with its line number, because Jinja's debug table lacks constant text."""
        statements: list[nodes.Node] = []
        for piece in node.nodes:
            statements += [self._do("at", nodes.Const(piece.lineno)), nodes.Output([piece])]
        return statements

    def _all(self, body: list[nodes.Node]) -> list[nodes.Node]:
        return [statement for child in body for statement in self.visit_list(child)]


class TracedEnvironment(jinja2.Environment):
    """Jinja with jobc's filters. `_generate` is Jinja's documented hook between parsing and code generation."""

    def _generate(
        self, source: nodes.Template, name: str | None, filename: str | None, defer_init: bool = False
    ) -> str:
        check_filters_fit_places(source, self, name or filename or "")
        return super()._generate(_Guards().visit(source).set_environment(self), name, filename, defer_init)


@cache
def template_environment(folders: tuple[str, ...], precompiled: bool = True) -> TracedEnvironment:
    loaders: list[jinja2.BaseLoader] = []
    for folder in folders:
        compiled = Path(folder, COMPILED)
        if precompiled and _fits(compiled):
            loaders.append(jinja2.ModuleLoader(str(compiled)))
        loaders.append(jinja2.FileSystemLoader(folder))
    jinja = TracedEnvironment(
        loader=jinja2.ChoiceLoader(loaders),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    jinja.filters.update(dict(zip(PLACES, (sh, _directive, comment, raw), strict=True)))
    return jinja


@jinja2.pass_context
def _directive(context: jinja2.runtime.Context, value: object, line: str) -> str:
    """Filter text for a directive. Text that cannot be expressed is recorded, so that one compile reports every such
    text.

    line: start of the line, such as `#SBATCH`; added by check_filters.py.
    """
    try:
        return directive(value)
    except Inexpressible as error:
        context["_trace"].refuse(str(value), line, str(error))
        return ""


def _fits(compiled: Path) -> bool:
    """Return whether the precompiled templates match the installed Jinja version."""
    marker = compiled / "jinja2_version"
    return marker.is_file() and marker.read_text() == jinja2.__version__


def precompile(root: Path) -> list[Path]:
    """Compile every folder named `templates` below `root` into a folder inside it. Returns the new folders."""
    targets = []
    for folder in sorted(p for p in root.glob("**/templates") if any(p.glob("*.j2"))):
        target = folder / COMPILED
        template_environment((str(folder),), precompiled=False).compile_templates(
            str(target), extensions=["j2"], zip=None, ignore_errors=False
        )
        (target / "jinja2_version").write_text(jinja2.__version__)
        targets.append(target)
    return targets
