"""Check, while a template is compiled, that each value passes through the right filter, so that no value can become
syntax.

In:  the syntax tree of a template, which may be jobc's or a plugin's.
Out: TemplateSyntaxError for an expression without a filter, or with a filter for another context.

The text before an expression determines its context. All branches of an `if` start in the same context.
"""

import re
from collections.abc import Iterable
from typing import NoReturn, cast

import jinja2
from jinja2 import nodes

from ..plan.shell_quoting import PLACES
from .shell_context import ShellContextScanner

_SHELL = re.compile(r"\.(?:sh|bash|sbatch|pbs)(?:\.j2)?$|^#!.*sh\b")
_CONTEXTS = {  # context -> (its name in messages, filters that fit)
    "code": ("shell code", ("sh", "raw")),
    "single": ("single quotes", ("raw",)),
    "double": ("double quotes", ("raw",)),
    "heredoc": ("a here-document", ("raw",)),
    "comment": ("a comment", ("comment",)),
    "directive": ("a directive", ("directive",)),
    "text": ("text", ("comment", "sh", "raw")),
}


def check_filters_fit_places(template: nodes.Template, environment: jinja2.Environment, name: str) -> None:
    """Raise TemplateSyntaxError for the first expression without a filter that fits its context."""
    first = next((data.data for data in template.find_all(nodes.TemplateData)), "")
    shell = _SHELL.search(name) or _SHELL.match(first.split("\n")[0])
    _FilterChecker(environment, name, ShellContextScanner() if shell else None).check_statements(template.body)


class _FilterChecker:
    """Checks one template. places: tracks the context in the text so far, or None if the file is not a shell script"""

    def __init__(self, environment: jinja2.Environment, name: str, places: ShellContextScanner | None) -> None:
        self.environment, self.name, self.places = environment, name, places

    def check_statements(self, statements: Iterable[nodes.Node]) -> None:
        for statement in statements:
            if isinstance(statement, nodes.Output):
                for piece in statement.nodes:
                    self.check_piece(piece)
            elif isinstance(statement, nodes.If):
                self.check_branches(statement)
            elif isinstance(statement, nodes.FilterBlock):
                self.reject(statement, "a filter block changes text after its filters", PLACES)
            else:
                for field in ("body", "else_"):
                    self.check_statements(getattr(statement, field, ()))

    def check_branches(self, node: nodes.If) -> None:
        before = self.places and self.places.copy()
        self.check_statements(node.body)
        after = self.places
        for branch in (*(alternative.body for alternative in node.elif_), node.else_):
            self.places = before and before.copy()
            self.check_statements(branch)
        self.places = after

    def check_piece(self, piece: nodes.Expr) -> None:
        if isinstance(piece, nodes.TemplateData):
            self.advance_context(piece.data)
        elif isinstance(piece, nodes.CondExpr) and _is_constant(piece):
            self.check_piece(piece.expr1)
        elif isinstance(piece, nodes.Const):
            self.advance_context(str(piece.value))
        else:
            self.check_printed_value(piece)
            self.advance_context("x")

    def advance_context(self, text: str) -> None:
        if self.places:
            self.places.feed(text)

    def check_printed_value(self, piece: nodes.Expr) -> None:
        context, fitting = _CONTEXTS[self.places.context if self.places else "text"]
        used = piece.name if isinstance(piece, nodes.Filter) else None
        if used not in PLACES:
            self.reject(piece, f"a value is printed without any of the filters {', '.join(PLACES)}", fitting)
        if used not in fitting:
            self.reject(piece, f"| {used} does not fit in {context}", fitting)
        if used == "directive":
            line = cast(ShellContextScanner, self.places).line.split(" ")[0]
            cast(nodes.Filter, piece).args = [nodes.Const(line, lineno=piece.lineno)]

    def reject(self, piece: nodes.Node, problem: str, fitting: tuple[str, ...]) -> NoReturn:
        because = f"{problem}; use | {' or | '.join(fitting)} here"
        raise jinja2.TemplateSyntaxError(because, piece.lineno, self.name, self.name)


def _is_constant(node: nodes.Expr | None) -> bool:
    """Return whether the expression can only print constants from the template."""
    if isinstance(node, nodes.CondExpr):
        return _is_constant(node.expr1) and (node.expr2 is None or _is_constant(node.expr2))
    return isinstance(node, nodes.Const)
