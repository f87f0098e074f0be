"""`jobc init`: write a cluster profile from detected facts and the user's words.

In:  a name, KEY=VALUE words, and the output of commands on this machine (probe.py).
Out: a complete ~/.config/jobc/cluster/NAME.yaml that a test compile accepted, or no file at all.
"""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ....runtime.system.untrusted_files import Unreadable, read_text
from ...diagnostics.diagnostic import CompileError, Diagnostic, has_errors, nearest
from ...pipeline.compile import compile_job
from ...pipeline.types import CompileRequest
from ...spec.host_list import expand_hostlist
from ...spec.invalid_value import InvalidValue
from ...spec.value_types import parse_name
from ..arguments import Arguments, user_config_folder
from ..completion import find_group_options
from ..reporting import OK
from ..terminal import print_lines, print_text
from . import probe
from .probe import Fact, Run
from .profile import format_profile

OPTIONS = ("--force", "--project")


def init_command(arguments: Arguments) -> int:
    """Run jobc init [NAME] [--project] [--force] [KEY=VALUE …]."""
    name, given, options = _parse_arguments(arguments.words)
    facts = detect_facts(given, os.environ)
    for fact in facts:
        text = f"{fact.key} = {fact.value}" if fact.key else fact.value
        print_lines(f"  {text:<56} {fact.by}")
    name = name or next((fact.value for fact in facts if fact.key == "name"), "site")
    facts = [fact for fact in facts if fact.key != "name"]
    target = _profile_path(name, options)
    text = _compilable_profile(name, facts, given, arguments.config_dirs)
    print_text(f"\n{text}\n")
    _write_profile(target, text)
    print_lines(f"wrote {target}; use it with: jobc cluster={name} …")
    return OK


def _parse_arguments(words: Sequence[str]) -> tuple[str, tuple[Fact, ...], frozenset[str]]:
    """Return the name, the facts from KEY=VALUE words, and the options. Raises CompileError JC1110 for other words."""
    names = [word for word in words if not word.startswith("-") and "=" not in word]
    for word in words:
        if (word.startswith("-") and word not in OPTIONS) or word in names[1:]:
            close = nearest(word, OPTIONS)
            hint = f"jobc init {close[0]}" if close else "jobc init lab queue.account=abc"
            because = "jobc init accepts one name, any number of KEY=VALUE words, --force and --project"
            raise CompileError([Diagnostic("JC1110", f"jobc init does not accept {word}", because, hint)])
    facts = [_parse_fact(word) for word in words if "=" in word and word[0] != "-"]
    return names[0] if names else "", tuple(facts), frozenset(words) & frozenset(OPTIONS)


def _parse_fact(word: str) -> Fact:
    """Parse KEY=VALUE. A host file's path becomes absolute, because the profile is in another folder."""
    key, _, value = word.partition("=")
    if value.startswith("@"):
        value = f"@{Path(value[1:]).expanduser().absolute()}"
    return Fact(key, value, "as given")


def detect_facts(given: Sequence[Fact], environment: os._Environ[str]) -> list[Fact]:
    """Return the given facts, then facts detected on this machine or on the first given host."""
    given_values = {fact.key: fact.value for fact in given}
    facts = list(probe.detect_slurm(probe.run_locally)) if given_values.get("backend", "slurm") == "slurm" else []
    runner: Run = probe.run_locally
    if not facts and "hosts" in given_values:
        runner = probe.runner_on_host(_first_host(given_values["hosts"]))
        facts = [Fact("backend", "ssh", "hosts were given"), *probe.detect_machine(runner)]
    elif not facts:
        facts = [Fact("backend", "local", "sinfo is not available"), *probe.detect_machine(runner)]
    facts += [*probe.detect_network_interfaces(runner), *probe.detect_python_environment(environment)]
    detected_path = next((fact.value for fact in facts if fact.key == "python.path"), "")
    python_path = given_values.get("python.path") or detected_path
    facts += probe.detect_torch_version(runner, f"{python_path}/bin/python" if python_path else "python3")
    if "python" in given_values:
        facts = [fact for fact in facts if fact.key not in ("python", "python.path")]
    return [*given, *(fact for fact in facts if not fact.key or fact.key not in given_values)]


def _first_host(text: str) -> str:
    """Return the first host in `hosts`. Errors in it are reported by the compile at the end of `jobc init`."""
    try:
        if text.startswith("@"):
            lines = (line.partition("#")[0].split() for line in read_text(text[1:]).split("\n"))
            text = next((words[0] for words in lines if words), "")
        return expand_hostlist(text.strip("[]") if text[:1] == "[" else text)[0]
    except (InvalidValue, Unreadable):
        return ""


def _profile_path(name: str, options: frozenset[str]) -> Path:
    """Return the profile's path. Raises CompileError JC1135 if the file exists, and JC1136 for an invalid name."""
    try:
        parse_name(name)
    except InvalidValue as error:
        title, hint = f"{name!r} is not a valid profile name", f"jobc init {error.values[0]}"
        raise CompileError([Diagnostic("JC1136", title, error.because, hint)]) from None
    folder = Path("jobc") if "--project" in options else user_config_folder()
    target = folder / "cluster" / f"{name}.yaml"
    if target.exists() and "--force" not in options:
        because, hint = "the profile may contain your edits", f"jobc init {name} --force, or another name"
        raise CompileError([Diagnostic("JC1135", f"{target} already exists", because, hint)])
    return target


def _compilable_profile(
    name: str, facts: Sequence[Fact], given: Sequence[Fact], folders: Sequence[tuple[str, Path]]
) -> str:
    """Return the text of a profile that compiles. Detected facts that do not compile are dropped; given ones raise."""
    facts, dropped = list(facts), list[Fact]()
    while True:
        text = format_profile(name, facts, sorted(find_group_options()), dropped)
        try:
            _compile_with_profile(name, text, folders)
            return text
        except CompileError as error:
            typed = {fact.key for fact in given}
            errors = [d for d in error.diagnostics if has_errors([d])]
            wrong = {d.key for d in errors} - typed
            bad = [fact for fact in facts if fact.key in wrong]
            if not bad:
                raise CompileError([_profile_finding(d, given) for d in errors]) from None
            facts, dropped = [fact for fact in facts if fact not in bad], dropped + bad


def _profile_finding(diagnostic: Diagnostic, given: Sequence[Fact]) -> Diagnostic:
    """Return a finding about a profile that is not yet written. It quotes the typed word, if any."""
    word = next((f"{fact.key}={fact.value}" for fact in given if fact.key == diagnostic.key), "")
    return replace(diagnostic, origin=None, title=diagnostic.title + (f" (from {word})" if word else ""))


def _compile_with_profile(name: str, text: str, folders: Sequence[tuple[str, Path]]) -> None:
    """Compile the smallest job with the profile. Raises CompileError if that fails."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cluster").mkdir()
        (Path(folder) / "cluster" / f"{name}.yaml").write_text(text, encoding="utf-8")
        words = (f"cluster={name}", "site.requires=[]", "command=[true]")  # jobs must set some values
        compile_job(CompileRequest(words, None, (("input", Path(folder)), *folders)))


def _write_profile(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        staging.write_text(text, encoding="utf-8")
        os.replace(staging, target)
    finally:
        staging.unlink(missing_ok=True)
