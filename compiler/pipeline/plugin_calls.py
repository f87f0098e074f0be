"""Call a backend's own code, and turn its exceptions into diagnostics that name the backend."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ..checks import capabilities
from ..diagnostics.diagnostic import CompileError, Diagnostic
from ..emit.artifact import PROGRAM, Artifact
from ..emit.line_trace import RefusedText, TextRefusedError
from ..emit.render import Render
from ..emit.source_map import SourceMap
from ..plan.launch_plan import BackendRequirement, LaunchPlan
from ..plan.shell_quoting import DIRECTIVE
from ..plugins.backend import Backend
from ..plugins.registry import PACKAGE, Plugin, find_plugins
from ..spec.job_spec import JobSpec


def emit_files(backend: Backend, chosen: Plugin, plan: LaunchPlan, options: Any, render: Render) -> list[Artifact]:
    """Return the backend's files. Raises CompileError JC9003 if a file is not allowed. Also raises TextRefusedError."""
    with diagnose_plugin_errors(chosen, "emit", TextRefusedError):
        files = list(backend.emit(plan, options, render))
    paths = [file.path for file in files]
    wrong = [
        path
        for path in paths
        if path == PROGRAM or path.startswith(("/", ".jobc/")) or ".." in path.split("/") or paths.count(path) > 1
    ]
    if wrong:
        because, hint = f"not allowed: {', '.join(wrong)}", "see jobc.compiler.plugins.backend.Backend.emit"
        raise CompileError([Diagnostic("JC9003", f"backend {chosen.name} emits the wrong files", because, hint)])
    return files


@contextmanager
def diagnose_plugin_errors(chosen: Plugin, step: str, passed: type[Exception] | tuple[()] = ()) -> Iterator[None]:
    """Convert an error in a backend's own code or template to a diagnostic that names the backend (JC9002).

    passed: error types that the caller handles.
    """
    try:
        yield
    except passed:
        raise
    except (Exception, SystemExit) as error:
        raise plugin_error(chosen, step, error) from error


def plugin_error(chosen: Plugin, step: str, error: BaseException) -> CompileError:
    because = f"{type(error).__name__}: {error}"
    hint = "this is a bug in the backend: fix it there, or report it with the command line"
    failure = CompileError([Diagnostic("JC9002", f"backend {chosen.name} failed to {step}", because, hint)])
    failure.__cause__ = error
    return failure


def make_render(chosen: Plugin, plan: LaunchPlan, options: Any, spec: JobSpec) -> Render:
    ours = (PACKAGE / "compiler" / "templates", "jobc:compiler/templates")
    folders = [(chosen.folder / "templates", f"{chosen.source_name}/templates"), ours]
    views = {"plan": plan, "options": options, "spec": spec, "backend_name": chosen.name}
    return Render(tuple(str(f) for f, _ in folders), tuple(label for _, label in folders), views)


def backends_supporting(backend: Backend) -> Callable[[BackendRequirement], list[str]]:
    """Return a function that, for a requirement, returns the names of the other backends that support it, most similar
    first.

    Plugins that cannot be imported are skipped.
    """

    def supporting_backend_names(demand: BackendRequirement) -> list[str]:
        ranked = []
        for candidate in find_plugins().values():
            try:
                if candidate.name != backend.name and not capabilities.unsupported_values(candidate.load(), demand):
                    ranked.append((-len(candidate.load().honours.items() & backend.honours.items()), candidate.name))
            except CompileError:
                continue
        return [name for _, name in sorted(ranked)]

    return supporting_backend_names


def diagnose_unwritable_text(
    refused: Iterable[RefusedText], source_map: SourceMap, backend: str
) -> Iterator[Diagnostic]:
    """Yield JC4303 for each spec key whose text cannot be written to a file unchanged, and JC9002 for such text from
    anywhere else.
    """
    reported = set()
    for refusal in refused:
        key = _blamed_spec_key(refusal, source_map)
        if key and key not in reported:
            title = f"{key}: {refusal.text!r} is not valid in its {refusal.place}"
            value = str(source_map.spec[key].value)
            hint = (
                f"change {key}" if value.startswith(("[", "{")) else f"{key}={_replace_unwritable(value)}, for example"
            )
            yield Diagnostic("JC4303", title, refusal.because, hint, key=key)
        elif not key:
            title = f"{refusal.text!r} is not valid in its {refusal.place}, and no key of the job contains it"
            yield Diagnostic("JC9002", title, refusal.because, f"this is a bug in backend {backend}: report it")
        reported.add(key)


def _replace_unwritable(text: str) -> str:
    """Return the text with `_` in place of each character that an emitted file might reject."""
    return re.sub(r"[^\w.:@%+,/-]+", "_", text) or "NAME"


def _blamed_spec_key(refusal: RefusedText, source_map: SourceMap) -> str:
    """Return the spec key whose value contains the rejected text or part of it, or else the first key read."""
    keys = source_map.spec_keys(refusal.keys)
    pieces = [piece for piece in (refusal.text, *re.split("[,:]", refusal.text)) if not DIRECTIVE.fullmatch(piece)]
    values = {key: str(source_map.spec[key].value) for key in keys}
    blamed = (key for key, value in values.items() if any(piece and piece in value for piece in pieces))
    return next(blamed, next((key for key, value in values.items() if value in refusal.text), "")) or "".join(keys[:1])
