"""How people and scripts talk to a running job: the files control/STOP and control/SAVE in the run folder."""

from pathlib import Path

from .rt import exit_codes


def stop_file(run_dir: Path) -> Path:
    """Exists = save and end for good; nobody starts the job again."""
    return run_dir / "control" / "STOP"


def save_file(run_dir: Path) -> Path:
    """Exists = save now and go on. The trainer removes it."""
    return run_dir / "control" / "SAVE"


def exit_code_when_stopped(run_dir: Path) -> int:
    """Stopped by the user is done; stopped by anything else asks to be started again."""
    return exit_codes.DONE if stop_file(run_dir).exists() else exit_codes.PREEMPTED
