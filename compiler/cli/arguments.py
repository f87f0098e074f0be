"""Parse argv into `Arguments`: the command, the options, the overrides, and the user's own command after ` -- `."""

import argparse
import os
import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from ...runtime.system.frozen_dataclass import dataclass
from ..diagnostics.diagnostic import CompileError, Diagnostic, nearest
from ..diagnostics.origin import COMMAND_LINE, Origin
from ..frontend.observed_files import ask_file_system

COMMANDS = {
    "compile": "write the artifact directory (the default command)",
    "check": "print diagnostics, write nothing",
    "plan": "estimate steps, memory, time and cost: jobc plan nodes=1,2,8",
    "diff": "compare two jobs, artifacts or runs: jobc diff DIR DIR",
    "run": "compile, submit and follow",
    "why": "show where a line or a key comes from: jobc why FILE:LINE",
    "verify": "find hand edits and changed inputs: jobc verify DIR",
    "explain": "explain a diagnostic: jobc explain JC3011",
    "backends": "list the installed backends and what each one supports",
    "submit": "run DIR/jobctl submit; also status, logs, stop, preflight, smoke, shell and clean",
    **dict.fromkeys(("status", "logs", "stop", "preflight", "smoke", "shell", "clean"), ""),
    "ls": "list all jobs' runs, newest first: jobc ls --state failed",
    "watch": "show a run's live progress: jobc watch DIR",
    "init": "detect this cluster, and write its profile: jobc init lab",
    "completion": 'print shell completion: eval "$(jobc completion bash)"',
    "help": "",
    "_complete": "",
}
_TAKE_VALUES = ("--config-dir", "-cd", "--config-name", "-cn", "--out", "--cfg", "-c", "-p", "--format")
_CONFIG_FILE = (".yaml", ".yml")
_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
_OF_DIAGNOSTICS, _OF_FIGURES = ("text", "json", "github"), ("table", "json", "csv")
FORMATS = {  # command -> output formats, the default first
    "compile": _OF_DIAGNOSTICS,
    "check": _OF_DIAGNOSTICS,
    "plan": _OF_FIGURES,
    "diff": ("text", "json"),
}
VERBS = ("submit", "status", "logs", "stop", "preflight", "smoke", "shell", "clean")  # each runs DIR/jobctl VERB
USAGE = {
    **dict.fromkeys(VERBS, "DIR|NAME [OPTION …]"),
    **dict.fromkeys(("status", "logs"), "DIR|RUN|NAME … [OPTION …]"),
    **dict.fromkeys(("stop", "watch"), "DIR|RUN|NAME [OPTION …]"),
    **dict.fromkeys(("compile", "check", "plan", "run"), "[OPTION …] [KEY=VALUE …] [-- COMMAND ARGUMENT …]"),
    "shell": "DIR|NAME [OPTION …] [-- COMMAND ARGUMENT …]",
    "diff": "[DIR …] [OPTION …] [KEY=VALUE …] [vs KEY=VALUE …]",
    "why": "FILE:LINE[-LINE] …, or [DIR | KEY=VALUE …] KEY … [--config-dir FOLDER]",
    "verify": "[--config-dir FOLDER] [--format json] DIR …",
    "explain": "[CODE | NAME …]",
    "completion": "bash",
    "ls": "[FOLDER …] [--name PATTERN] [--state STATE[,STATE …]] [--limit N] [--format json]",
    "init": "[NAME] [--project] [--force] [KEY=VALUE …]",
}
TAKES_ARGUMENTS = {"why", "verify", "explain", "backends", "completion", "_complete", "init", "ls", "watch", *VERBS}


@dataclass(frozen=True)
class Arguments:
    """Parsed command line.

    words: the overrides, or the arguments of a command that takes no overrides.
    rest: the words after ` -- `.
    """

    command: str
    words: tuple[str, ...]
    rest: tuple[str, ...] | None
    multirun: bool = False
    cfg: str | None = None
    info: str | None = None
    package: str | None = None
    config_dir: Path | None = None
    config_name: str = "config"
    out: Path = Path("artifacts")
    force: bool = False
    strict: bool = False
    detach: bool = False
    format: str | None = None
    help: bool = False
    version: bool = False

    @property
    def prints_machine_format(self) -> bool:
        return self.command in ("compile", "check") and self.format not in (None, "text")

    @property
    def config_dirs(self) -> tuple[tuple[str, Path], ...]:
        """Return the user's config folders, of which earlier ones win: --config-dir, ./jobc, ~/.config/jobc."""
        home = user_config_folder()
        project = Path("jobc")
        folders = [("input", self.config_dir)] if self.config_dir else []
        is_checkout = ask_file_system("exists", project / "__init__.py")  # of jobc, which is not a config folder
        if ask_file_system("folder", project) and not is_checkout:
            folders.append(("project", project))
        if ask_file_system("folder", home):
            folders.append(("user", home))
        return tuple((root, path.absolute()) for root, path in folders)


def user_config_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "jobc"


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Parse argv. Raises CompileError JC1110 for an unknown option or command."""
    words, program_words = list(argv), None
    if "--" in words:
        separator = words.index("--")
        words, program_words = words[:separator], tuple(words[separator + 1 :])
    first = _index_of_command(words)
    command = "compile" if first is None else words.pop(first)
    if command in TAKES_ARGUMENTS:
        wants_help = command != "_complete" and words in (["-h"], ["--help"])
        return Arguments(command, tuple(words), program_words, help=wants_help)
    for i, word in enumerate(words):
        if word in ("-i", "--info") and (words[i + 1 : i + 2] or ["all"])[0] not in _INFO:
            words[i] = "--info=all"  # the next word is an override
    try:
        options = vars(_make_parser(words, program_words is not None).parse_intermixed_args(words))
        overrides = tuple(options.pop("words"))
        if command != "diff":  # diff also takes folders
            _reject_non_overrides(overrides)
    except CompileError:
        if program_words is None:
            _reject_command_without_dashes(command, words)
        raise
    if options["help"]:
        return Arguments("help" if first is None else command, (), None, help=True)
    if options["detach"] and command != "run":
        hint = "jobc run --detach …, or jobctl submit --detach"
        raise _no_effect_error("--detach", "only jobc run starts a job", hint)
    if options["format"] not in (None, *FORMATS.get(command, ())):
        raise _format_error(command, options["format"])
    if options["package"] and not options["cfg"]:
        if one_dash := next((word for word in words if word.startswith("-p") and "=" in word), ""):
            because = "an override does not begin with a dash"
            raise CompileError([Diagnostic("JC1110", f"unknown option {one_dash}", because, one_dash.lstrip("-"))])
        hint = f"--cfg job --package {options['package']}"
        raise _no_effect_error("--package", "--package selects what --cfg prints", hint)
    return Arguments(command, overrides, program_words, **options)


def parse_leniently(argv: Sequence[str]) -> Arguments:
    """Return the command and format of an invalid command line, so that its error can be printed in that format."""
    words = list(argv[: argv.index("--")] if "--" in argv else argv)
    index = _index_of_command(words)
    command = "compile" if index is None else words[index]
    formats = re.findall(r"(?m)^--format(?:=|\n)(\w+)$", "\n".join(words))
    is_supported = formats and formats[-1] in FORMATS.get(command, ())
    return Arguments(command, (), None, format=formats[-1] if is_supported else None)


def _index_of_command(words: Sequence[str]) -> int | None:
    """Return the command's index: the first bare word (no option, value or override), if it names a command."""
    bare = (i for i, word in enumerate(words) if not re.match(r"[-~]|.*=", word) and not _is_value(words, i))
    first = next(bare, None)
    return first if first is not None and words[first] in COMMANDS else None


def is_override(word: str) -> bool:
    """Return whether a word is an override. The names of sweep directories also contain `=`.

    Such a name, as in `artifacts/f+seed=1/slurm`, has a `+` before the `=`, which no key has. A path that exists is
    never an override, with or without :LINE.
    """
    return bool(re.match(r"~|\+{0,2}[^+=]*=", word)) and not os.path.exists(re.sub(r":\d+(-\d+)?$", "", word))


def _reject_command_without_dashes(command: str, words: Sequence[str]) -> None:
    """Raise JC1110 if `words` seem to contain the user's own command, that is, a program without ` -- ` before it."""
    bare = [i for i, w in enumerate(words) if not re.match(r"[-~]|.*=", w) and not _is_value(words, i)]
    programs = (i for i in bare if words[i].endswith((".py", ".sh")) or Path(words[i]).is_file())
    index = next((i for i in programs if not words[i].endswith(_CONFIG_FILE)), None)
    if index is not None:
        first = index
        while first - 1 in bare and not (first > 1 and words[first - 2].startswith("-")):
            first -= 1  # `python` before train.py
        verb = [command] if command != "compile" else []
        hint = shlex.join(["jobc", *verb, *words[:first], "--", *words[first:]])
        because = "without ` -- ` before your command, jobc would read it as overrides and options"
        title, origin = f"{words[index]} is neither an override nor a command", Origin(COMMAND_LINE, words[index])
        raise CompileError([Diagnostic("JC1110", title, because, hint, origin)])


def _no_effect_error(option: str, because: str, hint: str) -> CompileError:
    return CompileError([Diagnostic("JC1110", f"{option} has no effect here", because, hint)])


def _format_error(command: str, name: str) -> CompileError:
    formats = FORMATS.get(command, ())
    if not formats:
        because = "only compile, check, plan and diff have an output format"
        return _no_effect_error("--format", because, f"jobc check --format {FORMATS['check'][0]}")
    title = f"jobc {command} does not support --format {name}"
    because = f"the format must be one of {', '.join(formats)}"
    return CompileError([Diagnostic("JC1110", title, because, f"--format {formats[0]}")])


def _is_value(words: Sequence[str], index: int) -> bool:
    """Return whether a word is the value of the option before it, as in `--config-name run`."""
    return index > 0 and words[index - 1] in _TAKE_VALUES


def _reject_non_overrides(overrides: Sequence[str]) -> None:
    diagnostics = []
    for word in (word for word in overrides if "=" not in word and not word.startswith("~")):
        if word in COMMANDS:
            title, because = f"{word} is a second command", "jobc runs one command at a time"
            hint = f"remove {word} or the other command"
        elif word.endswith(_CONFIG_FILE):
            path = Path(word)
            title, because = f"{word} is not an override", "config files are selected by name"
            hint = shlex.join(["--config-dir", str(path.parent), "--config-name", path.stem])
            hint += f", after you rename the file to {path.stem}.yaml" if path.suffix == ".yml" else ""
        else:
            close = nearest(word, [name for name in COMMANDS if not name.startswith("_")])
            title = f"unknown command {word}"
            because = "the first word without `=` must be a command of jobc"
            hint = f"an override is {word}=VALUE; your own program goes after --"
            hint = f"did you mean jobc {close[0]}?" if close else hint
        diagnostics.append(Diagnostic("JC1110", title, because, hint, Origin(COMMAND_LINE, word)))
    if diagnostics:
        raise CompileError(diagnostics)


class _ArgumentParser(argparse.ArgumentParser):
    words: Sequence[str] = ()  # the words being parsed, for hints
    has_program: bool = False  # whether ` -- ` and a program follow them

    def error(self, message: str) -> NoReturn:
        """Raise argparse's error as a diagnostic. Parses the messages of Python 3.10 to 3.14."""
        actions = {name: action for action in self._actions for name in action.option_strings}
        about = re.match(r"argument ([^:]+): (.*)", message)
        if about and (action := actions.get(about[1].split("/")[-1])):
            option = action.option_strings[-1]
            title, hint = f"{option} needs a value", f"{option} {action.dest.upper()}"
            if action.nargs == 0:
                title, hint = f"{option} takes no value", option
            elif action.choices:
                title = f"{option} needs one of {', '.join(action.choices)}"
                hint = f"{option} {next(iter(action.choices))}"
            raise CompileError([Diagnostic("JC1110", title, action.help or about[2], hint)])
        word = next((w for w in message.replace(",", " ").split() if w.startswith("-")), message)
        name, _, value = word.partition("=")
        from ..spec.job_spec import is_trainer_key

        close = nearest(name, actions) if name.startswith("--") else []
        hint = f"did you mean {close[0]}?" if close else "jobc --help lists the options; your program's own go after --"
        if any(name == f"--{printed}" for formats in FORMATS.values() for printed in formats):
            hint = f"--format {name[2:]}"
        after = next((w for before, w in pairwise(self.words) if before == word and not w.startswith("-")), "")
        text = value or (after if after and "=" not in after else "VALUE")
        if name == "--env":
            variable = value or after or "NAME"
            hint = f"env.{variable}" if "=" in variable else f"env.{variable}=VALUE"
        elif script := _verb_example(name):
            hint = script
        elif key := _key_from_option(name):
            hint = f"{key}={text}"
            if is_trainer_key(key):
                option = shlex.join([name, text])
                hint = f"-- train.py {option}; or {hint} for the bundled trainer"
                hint = f"pass {option} to your program, after --" if self.has_program else hint
        because = "jobc has no such option; options for your own program go after --"
        raise CompileError([Diagnostic("JC1110", f"unknown option {word}", because, hint)])


def _verb_example(name: str) -> str:
    """Return `jobc logs DIR --rank N` for --rank, or "" if no verb has that option."""
    from .help import options_of_verb

    matches = ((verb, option) for verb in VERBS for option in options_of_verb(verb) if option.split()[0] == name)
    return next((f"jobc {verb} DIR {option}" for verb, option in matches), "")


def _key_from_option(option: str) -> str:
    """Return `procs` for --procs, `backend` for --backend, `loop.steps` for --steps, or "" if no key matches."""
    from ..spec.aliases import key_from_alias
    from ..spec.job_spec import JobSpec
    from ..spec.type_hints import spec_keys

    keys = spec_keys(JobSpec)
    name = option.lstrip("-").replace("-", "_")
    if name in keys or name == "backend":
        return name
    return key_from_alias(name) or next((key for key in keys if key.endswith(f".{name}")), "")


def _without_suffix(name: str) -> str:
    """Return the name of a config file, which Hydra accepts with or without .yaml."""
    return name.removesuffix(".yaml")


def _make_parser(words: Sequence[str] = (), has_program: bool = False) -> _ArgumentParser:
    parser = _ArgumentParser("jobc", add_help=False, allow_abbrev=False)
    parser.words, parser.has_program = words, has_program
    add = parser.add_argument
    add("words", nargs="*")
    add("-m", "--multirun", action="store_true", help="compile every combination of comma-separated values (a sweep)")
    add("-c", "--cfg", choices=("job", "hydra", "all"), help="print the composed config instead of compiling")
    add("-i", "--info", nargs="?", const="all", choices=_INFO, help="print how the config was composed")
    add("-p", "--package", help="with --cfg: print only this section of the config")
    add("-cd", "--config-dir", type=Path, help="a folder of config files that overrides all others")
    name_help = "the primary config file (default: config)"
    add("-cn", "--config-name", type=_without_suffix, default="config", help=name_help)
    out_help = "folder for artifact directories; relative paths in the job are resolved against its parent"
    add("--out", type=Path, default=Path("artifacts"), help=f"{out_help} (default: artifacts)")
    add("--force", action="store_true", help="overwrite files that were edited by hand")
    add("--strict", action="store_true", help="treat warnings and notes as errors, unless `# jobc: allow` covers them")
    add("--detach", action="store_true", help="with run: return after submitting")
    formats = tuple(dict.fromkeys(name for formats in FORMATS.values() for name in formats))
    format_help = "diagnostics as text, json or github; plan as table, json or csv; diff as text or json"
    add("--format", choices=formats, help=format_help)
    add("-h", "--help", action="store_true", help="print this help")
    add("--version", action="store_true", help="print the version")
    return parser


def described_options() -> list[tuple[Sequence[str], str]]:
    return [(action.option_strings, action.help or "") for action in _make_parser()._actions if action.option_strings]
