"""Commands that list what exists (explain, backends), and helpers with which other commands report usage errors."""

from ..diagnostics.diagnostic import CompileError, Diagnostic, nearest
from ..plugins.backend import ANY
from ..plugins.registry import code_pages, codes_by_name, find_plugins
from ..spec.type_hints import spec_keys
from .arguments import COMMANDS, Arguments
from .reporting import OK, report_diagnostics
from .terminal import print_lines, print_text


def explain_command(arguments: Arguments) -> int:
    pages = code_pages()
    if not arguments.words:
        for page in pages.values():
            print_lines(page.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# "))
        return OK
    for word in arguments.words:
        for code in _find_codes(word):
            print_text(pages[code].read_text(encoding="utf-8"))
    return OK


def _find_codes(word: str) -> tuple[str, ...]:
    """Return the typed code, or all codes with the typed name. Raises CompileError JC1111 if there is none."""
    pages, names = code_pages(), codes_by_name()
    if word.upper() in pages:
        return (word.upper(),)
    if word.lower() in names:
        return names[word.lower()]
    close = nearest(word.upper(), pages) or nearest(word.lower(), names)
    hint = f"jobc explain {close[0]}" if close else "jobc explain lists all codes"
    raise CompileError([Diagnostic("JC1111", f"no diagnostic has the code or name {word}", "", hint)])


def backends_command(arguments: Arguments) -> int:
    if arguments.words:
        because = f"jobc backends always lists all backends, so {arguments.words[0]} has no effect"
        raise CompileError([Diagnostic("JC1110", "jobc backends takes no arguments", because, "jobc backends")])
    for plugin in find_plugins().values():
        try:
            backend = plugin.load()
        except CompileError as error:
            report_diagnostics(error.diagnostics)
            continue
        print_lines(f"{plugin.name}  ({plugin.source_name})")
        print_lines(f"  start    {backend.launch}")
        options = ", ".join(_leaf_keys(backend.Options)) or "none"
        print_lines(f"  options  {options}")
        honours = [k if v == ANY else f"{k} ({', '.join(v)})" for k, v in sorted(backend.honours.items())]
        print_lines(f"  honours  {', '.join(honours) or 'only the keys common to all backends'}")
    return OK


def pop_option(words: list[str], option: str) -> str | None:
    """Remove an option from `words` and return its value: "" if it has no value, or None if the option is missing."""
    for index, word in enumerate(words):
        name, sign, value = word.partition("=")
        if name == option:
            value = value if sign else "".join(words[index + 1 : index + 2])
            del words[index : index + (1 if sign else 2)]
            return value
    return None


def unknown_option_error(command: str, option: str, because: str) -> CompileError:
    return CompileError([Diagnostic("JC1110", f"jobc {command} has no option {option}", because, f"remove {option}")])


def _leaf_keys(options: type) -> list[str]:
    keys = spec_keys(options, "backend")
    return [key for key in keys if not any(subkey.startswith(f"{key}.") for subkey in keys)]


def usage_error(command: str, wanted: str, example: str) -> CompileError:
    because = COMMANDS[command].partition(":")[0]
    return CompileError([Diagnostic("JC1110", f"jobc {command} needs {wanted}", because, example)])
