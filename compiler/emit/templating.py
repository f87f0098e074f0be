"""The Jinja environment for all templates. It is traced and strict, and a user's commands share its compiled templates.

Source: Jinja 3.1, "API" (environment, loaders, bytecode cache) and "Extensions" (the syntax tree).
"""

import sys
from functools import cache
from pathlib import Path
from typing import cast

import jinja2
from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from .. import user_cache
from ..file_states import list_file_states
from ..plan.shell_quoting import PLACES, UnquotableText, comment, directive, raw, sh
from .check_filters import check_filters_fit_places

TEMPLATES, MOST_TEMPLATES = "templates", 200  # folder in the user's cache


class _TraceCallInserter(NodeTransformer):
    """Makes a template report the line of each piece, and where `if` and `for` blocks begin and end, to the trace."""

    @staticmethod
    def _trace_call(method: str, *args: nodes.Expr) -> nodes.Call:
        target = nodes.Getattr(nodes.Name("_trace", "load"), method, "load")
        return nodes.Call(target, list(args), [], None, None)

    def _trace_call_statement(self, method: str, *args: nodes.Expr) -> nodes.Stmt:
        return nodes.ExprStmt(self._trace_call(method, *args))

    def _begin_block(self, node: nodes.Node) -> list[nodes.Node]:
        return [
            self._trace_call_statement("set_line", nodes.Const(node.lineno)),
            self._trace_call_statement("begin_block"),
        ]

    def visit_If(self, node: nodes.If) -> list[nodes.Node]:
        for test in [node, *node.elif_]:
            test.test = self._trace_call("record_test", cast(nodes.Expr, test.test))
            test.body = self._visit_statements(test.body)
        node.else_ = self._visit_statements(node.else_)
        return [*self._begin_block(node), node, self._trace_call_statement("end_block")]

    def visit_For(self, node: nodes.For) -> list[nodes.Node]:
        node.iter = self._trace_call("record_loop", cast(nodes.Expr, node.iter))
        node.body = [self._trace_call_statement("record_loop_item"), *self._visit_statements(node.body)]
        end = self._trace_call_statement("end_block")
        return [*self._begin_block(node), node, end, end]

    def visit_Output(self, node: nodes.Output) -> list[nodes.Node]:
        """Emit each piece as a statement with its line number, because Jinja's debug table lacks constant text."""
        statements: list[nodes.Node] = []
        for piece in node.nodes:
            statements += [self._trace_call_statement("set_line", nodes.Const(piece.lineno)), nodes.Output([piece])]
        return statements

    def _visit_statements(self, body: list[nodes.Node]) -> list[nodes.Node]:
        return [statement for child in body for statement in self.visit_list(child)]


class TracedEnvironment(jinja2.Environment):
    """Jinja with jobc's filters. `_generate` is Jinja's documented hook between parsing and code generation."""

    def _generate(
        self, source: nodes.Template, name: str | None, filename: str | None, defer_init: bool = False
    ) -> str:
        check_filters_fit_places(source, self, name or filename or "")
        return super()._generate(_TraceCallInserter().visit(source).set_environment(self), name, filename, defer_init)


class _TemplateCache(jinja2.BytecodeCache):
    """Keeps compiled templates in the user's cache, because compiling one takes up to 100 ms."""

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        if (bytecode := user_cache.read(TEMPLATES, _cache_key(bucket))) is not None:
            bucket.bytecode_from_string(bytecode)

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        user_cache.write(TEMPLATES, _cache_key(bucket), bucket.bytecode_to_string(), MOST_TEMPLATES)


def _cache_key(bucket: jinja2.bccache.Bucket) -> bytes:
    """Return all that a compiled template depends on: its path and text, Jinja, and the modules in this folder."""
    return repr((bucket.key, bucket.checksum, jinja2.__version__, sys.version, *_module_states())).encode()


@cache
def _module_states() -> tuple[object, ...]:
    return tuple(list_file_states(Path(__file__).parent))


@cache
def template_environment(folders: tuple[str, ...]) -> TracedEnvironment:
    jinja = TracedEnvironment(
        loader=jinja2.FileSystemLoader(folders),
        bytecode_cache=_TemplateCache(),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    jinja.filters.update(dict(zip(PLACES, (sh, _directive_filter, comment, raw), strict=True)))
    return jinja


@jinja2.pass_context
def _directive_filter(context: jinja2.runtime.Context, value: object, line: str) -> str:
    """Filter text for a directive. Text that a directive cannot contain is recorded, so that one compile reports all
    such text.

    line: start of the line, such as `#SBATCH`. check_filters.py adds this argument.
    """
    try:
        return directive(value)
    except UnquotableText as error:
        context["_trace"].record_refused_text(str(value), line, str(error))
        return ""
