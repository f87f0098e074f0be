"""The pipeline: words of a command line in, artifacts out. Used by the command line and by the tests.

    words -> overrides -> compose -> convert -> check -> lower -> check backend -> emit -> (write)

Only compose, and host_file for it, read files; nothing here reads the clock, the user, the environment or a cluster.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from .. import __version__
from . import accelerate_checks, capabilities, directory, neutral, policy, rules, sourcemap, trainer_checks
from .accelerate import read_keys
from .arranged import arranged_words
from .artifact import Artifact
from .backend import VERBS, Backend, Point, SweepingBackend
from .compose import Composed, Folder, OverridesRefused, compose, groups_with_default, hydra_ready, read_inputs
from .convert import spec_keys
from .derive import procs
from .diagnostics import CompileError, Diagnostic, merged
from .host_file import too_few_slots
from .levels import Levels, read_allowances
from .lower import lower
from .overrides import Override, read_overrides
from .plan import Demand, LaunchPlan
from .registry import PACKAGE, Plugin, check_defaults, find_plugins, plugin
from .render import Render
from .sourcemap import SourceMap
from .spec import JobSpec, open_keys
from .sweep import SweepPoint, at_point, at_points, sweep_points
from .text import COMMAND_LINE, Origin
from .typed import Typed, blamed, origins, typed
from .unread import unread, unsaid


@dataclass(frozen=True)
class Request:
    """What to compile.

    words:       overrides as typed
    command:     the words after ` -- `, None when there is no ` -- `
    config_dirs: the user's config folders by root name (`input`, `project`, `user`), the first wins
    strict:      a warning or note that nobody allows is an error
    """

    words: tuple[str, ...]
    command: tuple[str, ...] | None = None
    config_dirs: tuple[tuple[str, Path], ...] = ()
    config_name: str = "config"
    strict: bool = False


@dataclass(frozen=True)
class Compiled:
    """One job for one backend. artifacts: every file of the directory; place: NAME/BACKEND below the output folder;
    origin_of, levels, unsaid, where: as of Planned
    """

    spec: JobSpec
    plan: LaunchPlan
    backend: Backend
    options: Any
    artifacts: tuple[Artifact, ...]
    diagnostics: tuple[Diagnostic, ...]
    source_map: SourceMap
    place: str
    origin_of: Callable[[str], Origin | None]
    levels: Levels
    unsaid: frozenset[str]
    where: str = ""


@dataclass(frozen=True)
class SweepFolder:
    """What starts several points at once. artifacts: none when the diagnostics say why they cannot be."""

    artifacts: tuple[Artifact, ...]
    diagnostics: tuple[Diagnostic, ...]
    place: str


@dataclass(frozen=True)
class Planned:
    """What a job comes to, before any backend. made_by: plan key -> rule; origin_of: where a key was written;
    levels: what is allowed; unsaid: keys that the user's own program does not read and nobody set;
    where: the point of a sweep, as typed, "" without one.
    """

    spec: JobSpec
    plan: LaunchPlan
    table: Mapping[str, tuple[str, ...]]
    made_by: Mapping[str, str]
    typed: Typed
    composed: Composed
    diagnostics: tuple[Diagnostic, ...]
    origin_of: Callable[[str], Origin | None]
    levels: Levels
    unsaid: frozenset[str]
    where: str = ""


T = TypeVar("T", Compiled, Planned)
Tell = Callable[[int, int], None]


def _nobody(done: int, count: int) -> None:
    pass


def compile_job(request: Request) -> Compiled:
    """Compile one job. Raises CompileError with every diagnostic of the first stage that has errors."""
    with hydra_ready(search_path(request)) as loader:
        compiled = _compile(request, read_overrides(request.words, open_keys(request.words)), loader)
    return _with_unused([compiled])[0]


def compile_sweep(request: Request, tell: Tell = _nobody) -> list[Compiled]:
    """Compile every point of a -m command line, each into a place of its own. Raises with the errors of all points.

    tell: is told before each point how many are done, and of how many
    """
    return _with_unused(_every_point(request, _compile, tell, aside=("backend", "name")))


def compile_unlabelled(request: Request, tell: Tell = _nobody) -> list[Compiled]:
    """As compile_sweep(), of one place all: each point is the job that its words give alone, to be compared."""
    return _with_unused(_every_point(request, _compile, tell, aside=None))


def plan_sweep(request: Request, tell: Tell = _nobody) -> list[Planned]:
    """The plan of every point, where commas make several, whether or not its backend could start it."""
    return _every_point(request, _plan, tell)


def _every_point(request: Request, make: Callable[..., T], tell: Tell, aside: Sequence[str] | None = ()) -> list[T]:
    """Raises with what is found in all points when one has an error. Every diagnostic says which point it hits.

    aside: see sweep_points
    """
    made: list[T] = []
    told: list[tuple[SweepPoint, Sequence[Diagnostic]]] = []
    with hydra_ready(search_path(request)) as loader:
        points = list(sweep_points(request.words, open_keys(request.words), loader, aside))
        for done, point in enumerate(points):
            tell(done, len(points))
            try:
                one, where = make(replace(request, words=point.words), point.overrides, loader), point.shown()
                made.append(replace(one, diagnostics=tuple(at_point(one.diagnostics, where)), where=where))
                told.append((point, one.diagnostics))
            except CompileError as error:
                told.append((point, error.diagnostics))
    if len(made) < len(told):
        raise CompileError(merged(at_points(told)))
    return made


def _with_unused(made: list[Compiled]) -> list[Compiled]:
    """The same, the first with a note for every comment in the files read of which no point had any use."""
    idle = Levels(read_allowances(read_inputs())).unused(d for one in made for d in one.diagnostics)
    return [replace(made[0], diagnostics=(*made[0].diagnostics, *idle)), *made[1:]]


def sweep_folders(compiled: Sequence[Compiled]) -> list[SweepFolder]:
    """For each name and backend of several points the folder that starts them at once, if the backend has one."""
    found = []
    for _, group in itertools.groupby(sorted(compiled, key=_name_and_backend), _name_and_backend):
        points = list(group)
        if len(points) > 1 and isinstance(points[0].backend, SweepingBackend):
            found.append(_sweep_folder(points, points[0].backend))
    return found


def write_job(compiled: Compiled | SweepFolder, out: Path, force: bool = False) -> Path:
    """Write the directory below `out`; gives its path. Raises as directory.write()."""
    target = out / compiled.place
    directory.write(target, compiled.artifacts, force)
    return target


def search_path(request: Request) -> list[Folder]:
    """Config folders, the first wins: the user's, then plugins', then ours."""
    folders = [Folder(root, str(path)) for root, path in request.config_dirs]
    for found in find_plugins().values():
        if found.conf.is_dir():
            provider = f"jobc:backends/{found.name}/conf" if found.root == "jobc" else found.root
            folders.append(Folder(provider, str(found.conf)))
    return [*folders, Folder("jobc:conf", str(PACKAGE / "conf"))]


def _plan(request: Request, overrides: Sequence[Override], loader: Any, last: bool = True) -> Planned:
    check_defaults(o.canonical.partition("=")[2].strip("'") for o in overrides if o.key == "backend")
    try:
        composed = compose(loader, request.config_name, overrides, known_keys)
    except OverridesRefused as error:
        raise CompileError([*error.diagnostics, *_mistyped(error.rest, request)]) from None
    if "backend" not in composed.choices and request.config_name != "config":
        title, hint = f"{request.config_name}.yaml is not laid over config.yaml", "defaults: [config, _self_]"
        because = "a file that --config-name names stands alone, and this one gives no backend"
        raise CompileError([Diagnostic("JC1105", title, because, hint)])
    levels = Levels(read_allowances(read_inputs()), request.strict)
    try:
        read = typed(composed, request.command, dict(request.config_dirs))
    except CompileError as error:
        raise CompileError(levels.judge(error.diagnostics)) from None
    origin_of = origins(composed, request.command)
    spec, own_container = capabilities.container_of_engine(read.spec, read.backend)
    checked = [*own_container, *rules.check_spec(spec)]
    checked += too_few_slots(read.host_files, spec.nodes, procs(spec))
    notes = levels.settle(_placed(checked, origin_of), last=False)
    plan, table, made_by = lower(spec)
    found = [*trainer_checks.check(plan, partial(blamed, composed, read.values)), *rules.check_values(read.values)]
    found += [*rules.check_plan(spec, plan), *policy.check(spec, plan)]
    notes = levels.settle(_placed(found, origin_of), notes, last)
    idle = frozenset[str]() if plan.uses_trainer else unsaid(composed, table, read.values, read_keys(plan))
    return Planned(spec, plan, table, made_by, read, composed, tuple(notes), origin_of, levels, idle)


def _mistyped(rest: Composed, request: Request) -> list[Diagnostic]:
    """The values of a wrong type beside overrides that are refused; not what is missing, which those may have given."""
    try:
        typed(rest, request.command, dict(request.config_dirs))
    except CompileError as error:
        return [d for d in error.diagnostics if d.code in ("JC1202", "JC1204")]
    return []


def _compile(request: Request, overrides: Sequence[Override], loader: Any) -> Compiled:
    planned = _plan(request, overrides, loader, last=False)
    spec, plan, table, composed = planned.spec, planned.plan, planned.table, planned.composed
    chosen, backend, _, options, values, host_files, keeps = planned.typed
    missing = capabilities.left_out(plan, backend, table, values)
    required = policy.asked_keys()  # of these nobody needs to be told: only the README of the artifact names them
    chosen_values = {key: value for key, value in values.items() if key not in required}
    told = capabilities.left_out(plan, backend, table, chosen_values)
    found = [
        *(unread(composed, spec.command, table, values, read_keys(plan)) if spec.command else ()),
        *accelerate_checks.check(plan, plan.accelerate_extra, plan.deepspeed_extra, "accelerate"),
        *accelerate_checks.gpu_ids_there(spec, plan.accelerate_extra, "accelerate"),
        *accelerate_checks.gpu_ids_there(spec, getattr(options, "extra", {}), "backend"),  # of backend accelerate
        *capabilities.check_scopes(plan, backend),
        *capabilities.check_honours(told, backend, _able(backend)),
    ]
    with _of_plugin(chosen, "check"):
        own = list(backend.check(plan, options))
    diagnostics = planned.levels.settle(_placed([*found, *own], planned.origin_of), planned.diagnostics)
    render = _render(chosen, plan, options, spec)
    files = _emit(backend, chosen, plan, options, render)
    missing += capabilities.said_left_out(own, plan, table, values)
    files += neutral.neutral_files(plan, backend, missing, tuple(files), render)
    source_map = sourcemap.build(files, table, values, planned.made_by, composed.options())
    place = f"{plan.run.folder}/{backend.name}"
    whole = [*files, *neutral.library(), *neutral.identity_files(spec, plan, backend.name, options)]
    asked = {"plugin": chosen.version} if chosen.root != "jobc" else {}
    placed = groups_with_default()
    groups = {group: group in placed for group in composed.choices}
    words = arranged_words(request.words, overrides, groups, keeps)
    sealed = seal(whole, place, source_map, host_files.digests, {**asked, **_asked(request, words)})
    made = (spec, plan, backend, options, sealed, tuple(diagnostics), source_map, place)
    return Compiled(*made, planned.origin_of, planned.levels, planned.unsaid)


def _asked(request: Request, words: list[str]) -> dict[str, Any]:
    """What a compile must be told to do this again; the config folders are where the user has them."""
    return {
        "words": words,
        "command": None if request.command is None else list(request.command),
        "config_name": request.config_name,
        "strict": request.strict,
    }


def seal(
    files: Sequence[Artifact],
    place: str,
    source_map: SourceMap,
    read: Mapping[str, str],
    asked: Mapping[str, Any],
) -> tuple[Artifact, ...]:
    """All files of a directory: what was made, and below .jobc/ where it lies, where it came from, and its sums.

    read: digests of the files that the spec names, such as hosts=@FILE; asked: as _asked()
    """
    whole = [*files, Artifact(neutral.PLACE, f"{place}\n")]
    whole.append(Artifact(directory.SOURCE_MAP, sourcemap.to_json(source_map)))
    whole.append(directory.manifest(whole, __version__, {**_input_digests(), **read}, asked))
    return tuple(whole)


def _name_and_backend(compiled: Compiled) -> tuple[str, str]:
    return compiled.plan.name, compiled.backend.name


def _sweep_folder(compiled: Sequence[Compiled], backend: SweepingBackend) -> SweepFolder:
    first, chosen, place = compiled[0], plugin(backend.name), f"{compiled[0].plan.name}+sweep/{backend.name}"
    points = [Point(c.place, c.plan, c.options, {a.path: a.text for a in c.artifacts}, c.source_map) for c in compiled]
    with _of_plugin(chosen, "check a sweep"):
        found = list(backend.check_sweep(points))
    if found:
        spec = first.source_map.spec
        placed = _placed(found, lambda key: spec[key].origin if key in spec else None)
        return SweepFolder((), tuple(Levels().settle(placed)), place)
    with _of_plugin(chosen, "emit a sweep"):
        files = list(backend.emit_sweep(points, _render(chosen, first.plan, first.options, first.spec)))
    of_first = first.source_map
    source_map = sourcemap.build(files, of_first.table, of_first.spec, of_first.rules, of_first.options)
    return SweepFolder(seal([*files, *neutral.library()], place, source_map, {}, {}), (), place)


def _emit(backend: Backend, chosen: Plugin, plan: LaunchPlan, options: Any, render: Render) -> list[Artifact]:
    """The backend's files; JC9003 when they are not those that a backend emits."""
    with _of_plugin(chosen, "emit"):
        files = list(backend.emit(plan, options, render))
    paths = [file.path for file in files]
    wrong = [p for p in paths if p.startswith(("/", ".jobc/", "lib/")) or ".." in p.split("/") or paths.count(p) > 1]
    lacking = [verb for verb in VERBS if verb not in paths]
    if wrong or lacking:
        because = f"not allowed: {', '.join(wrong)}" if wrong else f"not emitted: {', '.join(lacking)}"
        hint = "see jobc.compiler.backend.Backend.emit"
        raise CompileError([Diagnostic("JC9003", f"backend {chosen.name} emits the wrong files", because, hint)])
    return files


@contextmanager
def _of_plugin(chosen: Plugin, step: str) -> Iterator[None]:
    """An error in a backend's own code or template is a diagnostic that names the backend (JC9002)."""
    try:
        yield
    except (Exception, SystemExit) as error:
        because = f"{type(error).__name__}: {error}"
        hint = "a bug of the backend: mend it there, or report it with the command line"
        raise CompileError([Diagnostic("JC9002", f"backend {chosen.name} failed to {step}", because, hint)]) from error


def _render(chosen: Plugin, plan: LaunchPlan, options: Any, spec: JobSpec) -> Render:
    ours = (PACKAGE / "compiler" / "templates", "jobc:compiler/templates")
    folders = [(chosen.folder / "templates", f"{chosen.label}/templates"), ours]
    views = {"plan": plan, "options": options, "spec": spec, "backend_name": chosen.name}
    return Render(tuple(str(f) for f, _ in folders), tuple(label for _, label in folders), views)


def _able(backend: Backend) -> Callable[[Demand], list[str]]:
    """Names of the other backends that honour a demand, first those most like this one.

    A plugin that cannot be imported is passed over.
    """

    def able(demand: Demand) -> list[str]:
        found = []
        for other in find_plugins().values():
            try:
                if other.name != backend.name and not capabilities.refused(other.load(), demand):
                    found.append((-len(other.load().honours.items() & backend.honours.items()), other.name))
            except CompileError:
                continue
        return [name for _, name in sorted(found)]

    return able


def _placed(diagnostics: Sequence[Diagnostic], origin_of: Callable[[str], Origin | None]) -> list[Diagnostic]:
    return [d if d.origin or not d.key else replace(d, origin=_place(d, origin_of)) for d in diagnostics]


def _place(diagnostic: Diagnostic, origin_of: Callable[[str], Origin | None]) -> Origin | None:
    origin = origin_of(diagnostic.key)
    if diagnostic.private and origin is not None and origin.root == COMMAND_LINE:
        return replace(origin, path=f"{diagnostic.key}=…")
    return origin


def known_keys() -> list[str]:
    return [*spec_keys(JobSpec), "backend"]


def _input_digests() -> dict[str, str]:
    return {place: hashlib.sha256(text.encode()).hexdigest() for place, text in read_inputs().items()}
