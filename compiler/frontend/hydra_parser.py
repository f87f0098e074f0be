"""Parse one override with Hydra's grammar, but keep the exact text of its values."""

from collections.abc import Callable
from functools import cache
from typing import Any


def parse_override_with_hydra(word: str, sweep: bool) -> Any:
    """Return Hydra's Override for the word, in which every primitive is text, or None if Hydra cannot parse it.

    Such text is a QuotedString, in double quotes if the word has quotes of either kind, and otherwise in single quotes.
    """
    from hydra.errors import HydraException, OverrideParseException

    try:
        return _make_parser(sweep)(word)
    except (OverrideParseException, HydraException, RecursionError, ValueError):  # ValueError: an int of 5,000 digits
        return None


@cache
def _make_parser(sweep: bool) -> Callable[[str], Any]:
    """Return a parser for Hydra's grammar whose visitor keeps the text of primitives (hydra-core 1.3)."""
    from antlr4 import CommonTokenStream, InputStream
    from hydra.core.override_parser.overrides_parser import create_functions
    from hydra.core.override_parser.overrides_visitor import HydraErrorListener, HydraOverrideVisitor
    from hydra.core.override_parser.types import ChoiceSweep, Quote, QuotedString
    from hydra.grammar.gen.OverrideLexer import OverrideLexer
    from hydra.grammar.gen.OverrideParser import OverrideParser

    class TextVisitor(HydraOverrideVisitor):
        numbers = False  # becomes True inside range(…), interval(…) and casts, where numbers must remain numbers

        def visitPrimitive(self, ctx: Any) -> Any:
            value = super().visitPrimitive(ctx)
            if value is None or self.numbers:
                return value
            if isinstance(value, QuotedString):  # double quotes mark text that the user put in quotes
                return QuotedString(value.text, Quote.double)
            return QuotedString(value if isinstance(value, str) else ctx.getText().strip(), Quote.single)

        def visitDictKey(self, ctx: Any) -> str:
            return str(ctx.getText().strip())

        def visitFunction(self, ctx: Any) -> Any:
            if not sweep:
                return QuotedString(ctx.getText(), Quote.single)
            outer, self.numbers = self.numbers, not ctx.getText().startswith(("choice", "shuffle", "glob"))
            try:
                return super().visitFunction(ctx)
            finally:
                self.numbers = outer

        def visitSimpleChoiceSweep(self, ctx: Any) -> Any:
            if not sweep:
                return QuotedString(ctx.getText(), Quote.single)
            value = super().visitSimpleChoiceSweep(ctx)
            assert isinstance(value, ChoiceSweep)
            return value

    functions = create_functions()

    def parse_word(word: str) -> Any:
        listener = HydraErrorListener()
        lexer = OverrideLexer(InputStream(word))
        lexer.removeErrorListeners()
        lexer.addErrorListener(listener)
        parser: Any = OverrideParser(CommonTokenStream(lexer))
        parser.removeErrorListeners()
        parser.addErrorListener(listener)
        override = TextVisitor(functions).visit(parser.override())
        override.input_line = word
        return override

    return parse_word
