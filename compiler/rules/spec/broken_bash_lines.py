"""JC2024: lines of `setup`, `before`, `per_node`, `then` or `after` that bash cannot parse."""

from collections.abc import Iterator

from ... import bash_syntax
from ...diagnostics.diagnostic import Diagnostic, Severity
from ...frontend.observed_files import record_no_answer, record_program_lookup
from ...spec.job_spec import JobSpec

KEYS = ("setup", "before", "per_node", "then", "after")


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    if any(getattr(spec, key) for key in KEYS):
        record_program_lookup("bash")
    for key in KEYS:
        lines = getattr(spec, key)
        scripts = lines if key == "then" else ["\n".join(lines)]
        errors = [bash_syntax.syntax_error(f"{script}\n") for script in scripts if script]
        if None in errors:
            record_no_answer("bash")
            title = f"{key}: not checked, because bash did not respond within {bash_syntax.TIMEOUT_S} s"
            because = "bash parses such lines in milliseconds, unless this machine is overloaded"
            hint = "run the command again"
            yield Diagnostic("JC2024", title, because, hint, key=key, severity=Severity.WARNING)
        for error in filter(None, errors):
            because = f"bash reports {error}"
            hint = "close the quote, the block or the here-document that the message names"
            yield Diagnostic("JC2024", f"{key}: bash cannot parse these lines", because, hint, key=key, judgment=True)
