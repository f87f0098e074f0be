"""Track the context of each character in a shell script: code, quotes, comment or directive.

In:  a script's text, piece by piece.
Out: `place`, the context in which the next piece begins.

Source: POSIX.1-2024, Shell Command Language, 2.2 Quoting, 2.3 Token Recognition, 2.7.4 Here-Document.
"""

import re

_HEREDOC = re.compile(r"<<-?[ \t]*(?:(['\"])(?P<quoted>\w+)\1|\\(?P<escaped>\w+)|(?P<plain>[A-Za-z_]\w*))")
_DIRECTIVE = re.compile(r"#[^\s#]")
_PLAIN = re.compile(r"[^\\'\"`$(){}#<\n]+")
_REST_OF_LINE = re.compile(r"[^\n]+")
_WORD_BREAK = " \t\n;&|()`"


class ShellContextScanner:
    """The state of a scan through a script.

    stack: open constructs, outermost first: code (`$(` or `(`), code` (backtick), braces (`${`), double, single,
    dollar (`$'`), comment, heredoc.
    """

    def __init__(self) -> None:
        self.stack: list[str] = ["code"]
        self.line = ""  # the current line so far
        self.heredocs: list[str] = []  # end words of here-documents that begin after this line
        self.ends: list[str] = []  # end words of open here-documents

    def copy(self) -> "ShellContextScanner":
        duplicate = ShellContextScanner()
        duplicate.stack, duplicate.line = [*self.stack], self.line
        duplicate.heredocs, duplicate.ends = [*self.heredocs], [*self.ends]
        return duplicate

    @property
    def context(self) -> str:
        """Return the current context: code, double, single, comment, directive or heredoc."""
        inner = next((kind for kind in reversed(self.stack) if kind != "braces"), "code")
        if inner == "comment" and _DIRECTIVE.match(self.line):
            return "directive"
        return {"code`": "code", "dollar": "single"}.get(inner, inner)

    def feed(self, text: str) -> None:
        index = 0
        while index < len(text):
            length = self._consume_token(text, index)
            self._record_consumed(text[index : index + length])
            index += length

    def _record_consumed(self, piece: str) -> None:
        """Record consumed text. The end of a line ends comments and begins here-documents."""
        if not piece.endswith("\n"):
            self.line += piece
            return
        if self.stack[-1] == "heredoc" and self.line.strip("\t") == self.ends[0]:
            self.ends.pop(0)
            self.stack.pop()
        if self.stack[-1] == "comment":
            self.stack.pop()
        if self.heredocs and self.stack[-1] != "heredoc":
            self.ends, self.heredocs = [*self.heredocs], []
            self.stack += ["heredoc"] * len(self.ends)
        self.line = ""

    def _consume_token(self, text: str, index: int) -> int:
        """Consume one token, update the stack and return the token's length."""
        top, c = self.stack[-1], text[index]
        if plain := (_REST_OF_LINE if top in ("comment", "heredoc") else _PLAIN).match(text, index):
            return plain.end() - index
        if top in ("comment", "heredoc"):
            return 1
        if top in ("single", "dollar"):
            if c == "'":
                self.stack.pop()
            return 2 if top == "dollar" and c == "\\" else 1
        if c == "\\":
            return 2
        if text.startswith(("$(", "${"), index):
            self.stack.append("code" if text[index + 1] == "(" else "braces")
            return 2
        return self._consume_quoted(c) if "double" in (top, self.context) else self._consume_code(text, index)

    def _consume_quoted(self, c: str) -> int:
        if c == "}" and self.stack[-1] == "braces":
            self.stack.pop()
        elif c == '"':
            self._toggle_quote("double")
        elif c == "`":
            self._toggle_quote("code`")
        return 1

    def _consume_code(self, text: str, index: int) -> int:
        c, top = text[index], self.stack[-1]
        if c == '"':
            self.stack.append("double")
        elif c == "'":
            self.stack.append("dollar" if self.line.endswith("$") else "single")
        elif c == "`":
            self._toggle_quote("code`")
        elif top == "braces":
            if c == "}":
                self.stack.pop()
        elif c == "#" and (not self.line or self.line[-1] in _WORD_BREAK):
            self.stack.append("comment")
        elif c == "(":
            self.stack.append("code")
        elif c == ")" and len(self.stack) > 1:
            self.stack.pop()
        elif text.startswith("<<<", index):
            return 3
        elif heredoc := _HEREDOC.match(text, index):
            self.heredocs.append(heredoc["quoted"] or heredoc["escaped"] or heredoc["plain"])
            return len(heredoc[0])
        return 1

    def _toggle_quote(self, kind: str) -> None:
        if self.stack[-1] == kind:
            self.stack.pop()
        else:
            self.stack.append(kind)
