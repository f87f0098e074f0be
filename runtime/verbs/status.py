"""Report a run: state, exit code, reason, nodes, last step and loss, logs.

Exit   0; 1 if there is no such run, or if a sweep's point failed; 2 for an invalid option
"""

from __future__ import annotations

import json
from typing import Any

from ..engines.engine import Engine
from ..engines.jobs import Place
from ..engines.sweep_engine import SweepEngine, add_point_option, place_of_point, watching_engine
from ..run_folder.run import Run, shell_word
from ..system.command_line import Parser
from ..system.text import one_line
from .ending_signals import call_until_ended
from .run_list import SCHEMA, Row, row_of, rows_as_json

MOST_LABEL_WIDTH = 60  # for a point in a sweep's table; longer labels are not aligned


def main(argv: list[str]) -> int:
    """Return the exit code."""
    return call_until_ended(status, argv)


def status(argv: list[str]) -> int:
    artifact = Place.of_program()
    engine = watching_engine(artifact)
    options = parser(engine).parse_args(argv)
    if options.point is not None:
        artifact, options.run = place_of_point(artifact, options.point, options.run), ""
        engine = artifact.engine()
    if options.all:
        runs = artifact.list_runs()
        engine.fetch("state", runs)
        engine.prepare(runs)
        rows = [row_of(run, lambda _: engine) for run in runs]
        if options.format == "json":
            _print_json({"runs": rows_as_json(rows)})
        else:
            for row in rows:
                print(f"{row.run.id:<22} {one_line(row.state.text)}")
        return 0
    run = artifact.choose_run(options.run)
    for what in ("state", "news"):
        engine.fetch(what, [run])
    if isinstance(engine, SweepEngine):
        return print_points(engine, run, options.format)
    report = describe(engine, run)
    if options.format == "json":
        _print_json(report)
    else:
        print("\n".join(_lines(report, engine.logs(run)[0])))
    return 0


def parser(engine: Engine) -> Parser:
    words = Parser("status", "Report a run: state, exit code, reason, nodes, last step and loss, logs.")
    words.add_argument("--run", metavar="ID", default="", help="ID or path of the run; default: the newest")
    add_point_option(words, engine, "a table of all points")
    words.add_argument("--all", action="store_true", help="print one line for each run of the job")
    text = "text, or json for programs: docs/reference/status.md"
    words.add_argument("--format", metavar="FORMAT", choices=("text", "json"), default="text", help=text)
    return words


def describe(engine: Engine, run: Run) -> dict[str, Any]:
    """Return everything known about a run, as a mapping for JSON (docs/reference/status.md)."""
    engine.prepare([run])
    state = engine.state(run)
    nodes = [
        {
            "node": node.node,
            "status": node.status,
            "host": node.host,
            "text": one_line(node.text),
            "step": node.progress and node.progress.step,
            "loss": node.progress and node.progress.loss,
        }
        for node in engine.nodes(run, state)
    ]
    return {
        "run": run.id,
        "job": engine.job.name,
        "backend": engine.job.backend,
        "attempt": run.attempt,
        "state": state.name,
        "text": one_line(state.text),
        "exit_code": state.exit_code,
        "reason": one_line(engine.reason_line(run, state)),
        "nodes": nodes,
        "notes": [one_line(note) for note in engine.notes(run, state)],
        "resume": engine.resume_command(run, state),
        "logs": engine.logs(run)[1],
    }


def _lines(report: dict[str, Any], logs_label: str) -> list[str]:
    attempt = "" if report["attempt"] is None else report["attempt"]
    lines = [f"run {report['run']} of job {report['job']}, attempt {attempt}: {report['text']}"]
    if report["reason"]:
        lines.append(f"  reason: {report['reason']}")
    for node in report["nodes"]:
        progress = "" if node["step"] is None else f", step {node['step']}, loss {node['loss']:.4g}"
        lines.append(f"  node {node['node']:02}  {node['text']}{progress}")
    lines += [f"  {note}" for note in report["notes"]]
    if report["resume"]:
        lines.append(f"  resume with: {report['resume']}")
    return [*lines, f"  {logs_label} {shell_word(report['logs'])}"]


def print_points(engine: SweepEngine, sweep: Run, shown_as: str) -> int:
    """Print a sweep's points; return 1 if one has ended with an exit code other than 0, else 0."""
    engine.prepare([sweep])
    points = [(point, engine.state_of(point)) for point in engine.points(sweep)]
    if shown_as == "json":
        rows = rows_as_json(
            [
                row_of(point.run, lambda _: engine) if point.is_started else Row(point.run, 0, state)
                for point, state in points
            ]
        )
        labelled = [
            {"point": point.point.number, "label": point.point.label, **rows[index]}
            for index, (point, _) in enumerate(points)
        ]
        _print_json({"run": sweep.id, "job": engine.job.name, "points": labelled})
    else:
        where = engine.where(sweep)
        print(f"sweep {sweep.id} of {engine.job.name}{where and f', {where}'}: {engine.state(sweep).text}")
        width = min(MOST_LABEL_WIDTH, max(len(point.point.label) for point, _ in points))
        for point, state in points:
            print(f"{point.point.number:>5}  {one_line(point.point.label):<{width}}  {one_line(state.text)}")
    return int(any(state.exit_code not in (None, 0) for _, state in points))


def print_cost(engine: Engine) -> None:
    """Print which machines cost money, and how to stop them."""
    for line in engine.cost():
        print(f"  {one_line(line)}", flush=True)


def _print_json(tree: dict[str, Any]) -> None:
    print(json.dumps({"schema": SCHEMA, **tree}, indent=2))
