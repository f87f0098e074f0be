"""Report a run's state, exit code, reason, nodes, last step and loss, and logs.

Exit:  0, or 1 if there is no such run or a sweep's point failed, or 2 for an invalid option.
"""

from __future__ import annotations

import json
from typing import Any

from ..engines.artifact_location import Place, add_point_option
from ..engines.engine import Engine
from ..exit_codes import AFTER_USAGE_ERROR, CRASHED, USAGE_ERROR
from ..run_folder.run import Run, quote_shell_word
from ..run_folder.submitted_values import SubmittedValues
from ..system.command_line import Parser
from ..system.text import one_line
from .run_rows import SCHEMA, make_run_row, rows_to_json_objects


def main(argv: list[str]) -> int:
    artifact = Place.of_this_program()
    engine = artifact.watching_engine()
    options = parser(engine).parse_args(argv)
    if options.point is not None:
        artifact, options.run = artifact.location_of_point(options.point, options.run), ""
        engine = artifact.engine()
    if options.all:
        runs = artifact.list_runs()
        engine.fetch("state", runs)
        engine.query_runs(runs)
        rows = [make_run_row(run, lambda _: engine) for run in runs]
        if options.format == "json":
            print_json({"runs": rows_to_json_objects(rows)})
        else:
            for row in rows:
                print(f"{row.run.id:<22} {one_line(row.state.text)}")
        return 0
    run = artifact.choose_run(options.run)
    for what in ("state", "news"):
        engine.fetch(what, [run])
    if artifact.is_sweep:
        from .sweep_points import print_points  # only in a sweep's jobctl

        return print_points(engine, run, options.format)
    report = run_to_json_object(engine, run)
    if options.format == "json":
        print_json(report)
    else:
        print("\n".join(_format_report(report, engine.logs_label_and_path(run)[0])))
    return 0


def parser(engine: Engine) -> Parser:
    words = Parser("status", "Report a run's state, exit code, reason, nodes, last step and loss, and logs.")
    words.add_argument("--run", metavar="ID", default="", help="ID or path of the run; default: the newest")
    add_point_option(words, engine, "a table of all points")
    words.add_argument("--all", action="store_true", help="print one line for each run of the job")
    text = "text, or json for programs (see docs/reference/status.md)"
    words.add_argument("--format", metavar="FORMAT", choices=("text", "json"), default="text", help=text)
    return words


def run_to_json_object(engine: Engine, run: Run) -> dict[str, Any]:
    """Return everything known about a run, as a mapping for JSON (docs/reference/status.md)."""
    engine.query_runs([run])
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
        "submitted_with": one_line(SubmittedValues.read(run.path).format_as_options()),
        "nodes": nodes,
        "notes": [one_line(note) for note in engine.notes(run, state)],
        "resume": engine.resume_command(run, state),
        "logs": engine.logs_label_and_path(run)[1],
    }


def _format_report(report: dict[str, Any], logs_label: str) -> list[str]:
    attempt = "" if report["attempt"] is None else report["attempt"]
    lines = [f"run {report['run']} of job {report['job']}, attempt {attempt}: {report['text']}"]
    if report["submitted_with"]:
        lines.append(f"  submitted with: {report['submitted_with']}")
    if report["reason"]:
        lines.append(f"  reason: {report['reason']}")
    for node in report["nodes"]:
        progress = "" if node["step"] is None else f", step {node['step']}, loss {node['loss']:.4g}"
        lines.append(f"  node {node['node']:02}  {node['text']}{progress}")
    lines += [f"  {note}" for note in report["notes"]]
    if report["resume"]:
        lines.append(f"  resume with: {report['resume']}")
    elif report["exit_code"] == CRASHED and USAGE_ERROR in report["reason"]:
        lines.append(f"  next: {AFTER_USAGE_ERROR}")
    return [*lines, f"  {logs_label} {quote_shell_word(report['logs'])}"]


def print_json(tree: dict[str, Any]) -> None:
    print(json.dumps({"schema": SCHEMA, **tree}, indent=2))
