"""Executed by nano.py in its own globals: a file of settings, or --name=value for each."""

import sys
from ast import literal_eval

for arg in sys.argv[1:]:
    if "=" not in arg:
        exec(open(arg).read())
        continue
    key, value = arg.removeprefix("--").split("=")
    try:
        attempt = literal_eval(value)
    except (SyntaxError, ValueError):
        attempt = value
    assert type(attempt) is type(globals()[key]), f"{key} is {globals()[key]!r}, not {attempt!r}"
    globals()[key] = attempt
