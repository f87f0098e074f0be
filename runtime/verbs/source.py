"""Unpack this program's modules into a new folder, to read them.

Exit:  0, or 1 if the modules cannot be written, or 2 for an invalid option.
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

from ..engines.artifact_location import Place
from ..engines.engine import Engine
from ..system.command_line import Parser
from ..system.failure import Failure


def main(argv: list[str]) -> int:
    folder = Path(parser(Place.of_this_program().engine()).parse_args(argv).folder)
    try:
        folder.mkdir(parents=True)
        with zipfile.ZipFile(sys.argv[0]) as archive:
            archive.extractall(folder)
            count = len(archive.namelist())
        (folder / ".gitignore").write_text("*\n")  # in a repository, the next run must not copy the modules as code
    except OSError as error:
        title = f"cannot unpack jobctl to {folder}: {error.strerror}"
        raise Failure(title, "choose a folder that does not exist yet") from error
    print(f"{count} modules in {os.path.relpath(folder)}; __main__.py is the first one to read")
    return 0


def parser(engine: Engine) -> Parser:
    options = Parser("source", "Unpack jobctl's modules so that you can read them.")
    text = "folder to create; default: %(default)s"
    options.add_argument("folder", metavar="DIR", nargs="?", default="jobctl_source", help=text)
    return options
