"""Run campaigns, and write their results and the page about them.

    python -m prove [CAMPAIGN…] [--count N] [--fresh] [--into FOLDER]

Without CAMPAIGN, all campaigns run. Trials that already have a result are skipped. Exit code 1: a trial did not hold.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import (
    bad_disks,
    check_cost,
    compile_cost,
    cut_link,
    damaged_save,
    double_sigterm,
    equal_ways,
    exit_codes,
    first_hour,
    frozen_rank,
    hostile,
    kill_and_resume,
    kill_on_slurm,
    killed_save,
    learns,
    lost_node,
    many_nodes,
    mutated_configs,
    mutated_goldens,
    mutations,
    other_ranks,
    own_scripts,
    ports,
    random_specs,
    repeats,
    restarts,
    same_run,
    same_seed,
    save_stall,
    saved_step,
    secrets,
    skewed_clocks,
    stop_moments,
    stop_now,
    stopped,
    text,
    why,
)
from .campaign import Campaign, Failed, Line
from .results import append, figure, lines_file, page, read

CAMPAIGNS = [
    module.CAMPAIGN
    for module in (
        double_sigterm,
        kill_and_resume,
        kill_on_slurm,
        frozen_rank,
        other_ranks,
        skewed_clocks,
        same_seed,
        exit_codes,
        text,
        why,
        learns,
        compile_cost,
        repeats,
        random_specs,
        check_cost,
        stopped,
        stop_now,
        lost_node,
        cut_link,
        saved_step,
        ports,
        restarts,
        equal_ways,
        many_nodes,
        secrets,
        killed_save,
        damaged_save,
        bad_disks,
        stop_moments,
        same_run,
        save_stall,
        hostile,
        own_scripts,
        first_hour,
        mutated_configs,
        mutated_goldens,
        mutations,
    )
]
DOCS = Path(__file__).resolve().parent.parent / "docs" / "proof"


def main(words: Sequence[str], campaigns: Sequence[Campaign] = CAMPAIGNS) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m prove", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", metavar="CAMPAIGN", nargs="*", help=" ".join(campaign.name for campaign in campaigns))
    parser.add_argument(
        "--count", type=int, help="number of trials, by default those of the full campaign; 0: only write the page"
    )
    parser.add_argument("--fresh", action="store_true", help="delete the results of the listed campaigns first")
    parser.add_argument("--into", type=Path, default=DOCS, help="folder of the results; default: docs/proof")
    options = parser.parse_args(words)
    unknown = set(options.names) - {campaign.name for campaign in campaigns}
    if unknown:
        parser.error(f"no campaign {', '.join(sorted(unknown))}")

    held = True
    for campaign in campaigns:
        if campaign.name not in (options.names or [campaign.name]):
            continue
        if options.fresh:
            lines_file(options.into, campaign).unlink(missing_ok=True)
        try:
            complete(campaign, campaign.count if options.count is None else options.count, options.into)
        finally:
            options.into.mkdir(parents=True, exist_ok=True)
            (options.into / "README.md").write_text(page(options.into, campaigns), encoding="utf-8")
        lines = read(lines_file(options.into, campaign))
        held = held and all(line["ok"] for line in lines)
        print("\n  ".join([f"{campaign.name}: {figure(campaign, lines)}", *campaign.named(lines)]), flush=True)
    return 0 if held else 1


def complete(campaign: Campaign, count: int, into: Path) -> None:
    """Run the trials below `count` that have not been run yet. The folder of a failed trial is kept."""
    path = lines_file(into, campaign)
    done_trials = {line["trial"] for line in read(path)}
    work = Path(tempfile.mkdtemp(prefix=f"jobc-prove-{campaign.name}-"))
    keep = False
    try:
        for number in sorted(set(range(count)) - done_trials):
            folder = work / f"trial_{number:04}"
            folder.mkdir()
            started = time.monotonic()
            line = make_trial(campaign, number, folder)
            append(path, line)
            outcome = "held" if line["ok"] else f"did not hold, see {folder}: {line['why']}"
            print(f"{campaign.name} {number + 1}/{count}  {time.monotonic() - started:.1f} s  {outcome}", flush=True)
            if line["ok"]:
                remove(folder)
            keep = keep or not line["ok"]
    finally:
        if not keep:
            remove(work)


def make_trial(campaign: Campaign, number: int, folder: Path) -> Line:
    """Run one trial and return its line. Any error in the trial counts against the claim."""
    try:
        outcome = {"ok": True, **campaign.run(number, folder)}
    except Failed as failure:
        outcome = {"ok": False, "why": str(failure), **failure.measured}
    except Exception as error:
        outcome = {"ok": False, "why": f"{type(error).__name__}: {error}"}
    return {"trial": number, **anonymous(outcome, folder), "versions": versions()}


def anonymous(said: Any, folder: Path) -> Any:
    """Return a JSON value without the names of this machine and its folders."""
    if isinstance(said, Mapping):
        return {key: anonymous(value, folder) for key, value in said.items()}
    if isinstance(said, (list, tuple)):
        return [anonymous(value, folder) for value in said]
    if isinstance(said, str):
        names = {str(folder): "TRIAL", str(folder.parent): "WORK", str(Path.home()): "~", platform.node(): "HOST"}
        for name, word in names.items():
            said = said.replace(name, word) if len(name) > 1 else said
    return said


def versions() -> Mapping[str, str]:
    package_versions = {name: importlib.metadata.version(name) for name in ("jobc", "torch")}
    return {**package_versions, "python": platform.python_version(), "commit": commit()}


def commit() -> str:
    """Return the commit under test, followed by `+` if files other than the results have changed since."""
    describe = ["git", "-C", str(DOCS), "describe", "--always", "--abbrev=7", "--exclude=*"]
    changed = ["git", "-C", str(DOCS), "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude)."]
    description, changes = (
        subprocess.run(words, capture_output=True, text=True, check=False) for words in (describe, changed)
    )
    return f"{description.stdout.strip() or 'unknown'}{'+' if changes.stdout else ''}"


def remove(folder: Path) -> None:
    """Remove a folder, even if it contains a run's copies of the artifact, which are read-only."""
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            path = Path(parent, name)
            if not path.is_symlink():
                path.chmod(0o755)
    shutil.rmtree(folder)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # even after `&`, where a shell ignores SIGINT
        signal.signal(number, signal.default_int_handler)  # so that a trial ends its own processes
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("interrupted; the same command continues from here", file=sys.stderr)
        sys.exit(130)
