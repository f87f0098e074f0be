"""Build the compile request from the parsed command line."""

from ..diagnostics.diagnostic import CompileError, Diagnostic
from ..frontend.observed_files import ask_file_system
from ..pipeline.types import CompileRequest
from .arguments import Arguments


def build_request(arguments: Arguments) -> CompileRequest:
    """Return the compile request. Raises CompileError JC1108 (bad --config-dir) or JC1101 (words are not UTF-8)."""
    if arguments.config_dir is not None and not ask_file_system("folder", arguments.config_dir):
        because = "the path is not a directory" if arguments.config_dir.exists() else "no such folder"
        title, hint = f"--config-dir {arguments.config_dir}", "give a folder of YAML files"
        raise CompileError([Diagnostic("JC1108", title, because, hint)])
    for word in arguments.rest or ():
        try:
            word.encode()
        except UnicodeEncodeError:
            title = f"cannot read the argument {word!r} after --"
            because = "artifact files are UTF-8, and these bytes are not valid UTF-8"
            hint = "use UTF-8, or pass the name of a file that contains the text"
            raise CompileError([Diagnostic("JC1101", title, because, hint)]) from None
    return CompileRequest(
        arguments.words, arguments.rest, arguments.config_dirs, arguments.config_name, arguments.strict
    )
