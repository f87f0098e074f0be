"""The command line as users see it: its output and exit code."""

from __future__ import annotations

import json
import os
import re
import sys

import pytest

from jobc.compiler.cli import main
from jobc.compiler.cli.arguments import VERBS, parse_arguments
from jobc.compiler.cli.help import options_of_backend_verb, options_of_verb
from jobc.compiler.emit.artifact import PROGRAM
from jobc.compiler.plugins.registry import find_plugin

from ..shell import Shell


def test_compiling_prints_where_to_start(shell: Shell) -> None:
    done = shell.run(["jobc", "name=hello", "procs=2"])
    assert done.returncode == 0, done.stderr
    assert "start with artifacts/hello/local/jobctl submit" in done.stdout
    assert (shell.project / "artifacts/hello/local/jobctl").stat().st_mode & 0o111


def test_one_experiment_compiles_for_all_backends_and_sizes_to_one_training(shell: Shell) -> None:
    backends = ("local", "ssh", "pdsh", "accelerate", "slurm", "kubernetes", "skypilot")
    words = (f"backend={','.join(backends)}", "nodes=1,2,8", "gpu_type=H100", "hosts=node[1-8]")
    done = shell.jobc("-m", "+experiment=opensora_k8s", *words)
    assert done.returncode == 0, done.stderr
    there = "artifacts/opensora_k8s+nodes={}/{}"
    wanted = [f"start with {there.format(n, b)}/jobctl submit" for b in backends for n in (1, 2, 8)]
    assert [line.partition(" files, ")[2] for line in done.stdout.splitlines()] == wanted
    for nodes in (1, 2, 8):
        files = [(shell.project / there.format(nodes, b) / ".jobc/job.json").read_text() for b in backends]
        plans = ["\n".join(json.loads(text)["plan"]) for text in files]
        assert len({tuple(re.findall(r"(?m)^(?:command|topology\.|train\.).*", plan)) for plan in plans}) == 1
    notes = {line.split("]: ")[1] for line in done.stderr.splitlines() if line.startswith("note[JC4102 ")}
    assert notes == {"backend local ignores hosts=node[1-8]"}, "what is left out is said"
    refused = shell.jobc("check", "--strict", "+experiment=opensora_k8s", "backend=local", "nodes=2", "hosts=a,b")
    assert refused.returncode == 1 and "error[JC4102 " in refused.stderr


def test_a_config_name_may_end_in_yaml() -> None:
    assert parse_arguments(["--config-name", "mine.yaml"]).config_name == "mine"


def test_help_and_version_need_no_hydra(shell: Shell) -> None:
    program = (
        "import sys; from jobc.compiler.cli import main; s = main([sys.argv[1]]); "
        "assert 'hydra' not in sys.modules; sys.exit(s)"
    )
    for option in ("--help", "--version"):
        done = shell.run([sys.executable, "-c", program, option])
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("jobc")


def test_words_after_two_dashes_are_the_command(shell: Shell) -> None:
    assert shell.jobc("name=own", "--", "train.py", "--lr", "0.1", "--data=/x", "-m", "--", "a b").returncode == 0
    text = (shell.project / "artifacts/own/local/launch.sh").read_text()
    words = text.split("\n  --\n", 1)[1].split("\n)")[0].split("\n")
    assert [word.strip() for word in words] == ["python3", "train.py", "--lr", "0.1", "--data=/x", "-m", "--", "'a b'"]


def test_a_sweep_makes_one_directory(shell: Shell) -> None:
    done = shell.jobc("-m", "name=sweep", "procs=1,2", "optim.lr=1e-3,24.10", "seed=range(3,5)")
    assert done.returncode == 0, done.stderr
    start = "start with artifacts/sweep+sweep/local/jobctl submit"
    assert done.stdout == f"artifacts/sweep+sweep/local  8 points in 6 files, {start}\n"
    points = json.loads((shell.project / "artifacts/sweep+sweep/local/points.json").read_text())["points"]
    assert points[-1]["job"] == "sweep+procs=2+optim.lr=24.10+seed=4"
    assert points[-1]["label"] == "procs=2 optim.lr=24.10 seed=4"


def test_the_runs_of_a_point_are_in_a_readable_folder_when_commands_are_swept(shell: Shell) -> None:
    done = shell.jobc("-m", "name=s", "command=[train.py,--lr,0.1],[train.py,--lr,0.2]")
    assert done.returncode == 0, done.stderr
    points = json.loads((shell.project / "artifacts/s+sweep/local/points.json").read_text())["points"]
    assert [point["job"] for point in points] == ["s+command=train.py_--lr_0.1", "s+command=train.py_--lr_0.2"]


def test_a_failing_point_of_a_sweep_writes_nothing(shell: Shell) -> None:
    done = shell.jobc("-m", "procs=1,2,none")
    assert done.returncode == 1
    assert "JC1202" in done.stderr
    assert not (shell.project / "artifacts").exists()


def test_user_project_and_given_folders_win_in_that_order(shell: Shell) -> None:
    for folder, lr in (
        (shell.home / ".config/jobc", "1e-5"),
        (shell.project / "jobc", "1e-4"),
        (shell.project / "mine", "1e-6"),
    ):
        (folder / "experiment").mkdir(parents=True)
        (folder / "experiment" / "long.yaml").write_text(f"# @package _global_\noptim:\n  lr: {lr}\n")
    (shell.home / ".config/jobc/experiment/only_user.yaml").write_text("# @package _global_\nname: user\n")

    def lr(*words: str) -> float:
        done = shell.jobc("name=x", *words)
        assert done.returncode == 0, done.stderr
        return float(json.loads((shell.project / "artifacts/x/local/train.json").read_text())["optim"]["lr"])

    assert lr("+experiment=long") == 1e-4
    assert lr("--config-dir", "mine", "+experiment=long") == 1e-6
    assert shell.jobc("+experiment=only_user").stdout.startswith("artifacts/user/local")
    why = shell.jobc("why", "--config-dir", "mine", "artifacts/x/local/train.json:1-40").stdout
    assert "input:experiment/long.yaml:3:7" in why


def test_a_config_yaml_of_the_user_lies_over_ours(shell: Shell) -> None:
    text = "defaults:\n  - override /task: digits\nname: mine\nprocs: 2\noptim:\n  lr: 1e-4\n"
    shell.write("jobc/config.yaml", text)
    shell.write("jobc/experiment/long.yaml", "# @package _global_\noptim:\n  lr: 1e-6\n")
    shell.write("jobc/other.yaml", "defaults: [config, _self_]\nname: other\n")

    def train(*words: str) -> dict[str, dict[str, object]]:
        done = shell.jobc(*words)
        assert (done.returncode, done.stderr) == (0, "")
        text = (shell.project / done.stdout.split()[0] / "train.json").read_text()
        return dict(json.loads(text))

    mine = train()
    assert (mine["job"], mine["world_size"], mine["optim"]["lr"]) == ("mine", 2, 1e-4)
    assert (mine["model"]["kind"], mine["loop"]["epochs"]) == ("mlp", 15)
    assert train("optim.lr=1e-5")["optim"]["lr"] == 1e-5
    assert train("experiment=long")["optim"]["lr"] == 1e-6
    other = train("--config-name", "other")
    assert (other["job"], other["world_size"]) == ("other", 2)
    why = shell.jobc("why", "artifacts/mine/local/train.json:3", "artifacts/mine/local/train.json:6").stdout
    assert "project:config.yaml:3:7" in why and "jobc:conf/config.yaml:" in why


@pytest.mark.parametrize("word", ["cluster=x", "+cluster=x", "experiment=x", "+experiment=x", "own/group=x"])
def test_a_group_is_chosen_with_or_without_plus(shell: Shell, word: str) -> None:
    shell.write(f"jobc/{word.lstrip('+').replace('=', '/')}.yaml", "# @package _global_\nname: chosen\n")
    done = shell.jobc(word)
    assert done.stdout.startswith("artifacts/chosen/local"), done.stderr
    assert shell.jobc("+model=gpt_small", word, "--info", "defaults").returncode == 0


def test_cfg_prints_text_as_it_was_written(shell: Shell) -> None:
    shell.write("jobc/experiment/e.yaml", "# @package _global_\ntime: 12:00:00\nimage: 24.10\nenv: {A: on, B: 0755}\n")
    done = shell.jobc("--cfg", "job", "+experiment=e", "name=${storage.root}")
    assert done.returncode == 0, done.stderr
    for line in ("time: 12:00:00", "image: 24.10", "  A: on", "name: ${storage.root}"):
        assert line in done.stdout.replace("'", "").replace('"', "")


@pytest.mark.parametrize("info", ["all", "config", "defaults", "defaults-tree", "plugins", "searchpath"])
def test_info_is_what_hydra_users_know(shell: Shell, info: str) -> None:
    done = shell.jobc("--info", info)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) > 100
    assert "!!python/" not in done.stdout, "values are plain"


def test_group_at_package_adds_deletes_and_nested_values(shell: Shell) -> None:
    done = shell.jobc("name=x", "env={A: '1', B: two}", "~env.B", "++optim.lr=1e-4", "optim.betas=[0.8,0.9]")
    assert done.returncode == 0, done.stderr
    text = (shell.project / "artifacts/x/local/launch.sh").read_text()
    assert "export A=1" in text
    assert "export B=" not in text


def test_why_finds_a_line_that_a_hand_edit_has_moved(shell: Shell) -> None:
    shell.jobc("name=x", "threads=4")
    script = shell.project / "artifacts/x/local/launch.sh"
    lines = script.read_text().split("\n")
    at = next(n for n, line in enumerate(lines, 1) if line.startswith("export OMP_NUM_THREADS=4 "))
    script.write_text("\n".join([*lines[:3], "echo mine", *lines[3:]]))
    said = shell.jobc("why", f"artifacts/x/local/launch.sh:{at + 1}").stdout
    assert f"moved    jobc wrote this as line {at};" in said and "spec     threads = 4" in said
    assert (
        "edited   this line was changed after the compile" in shell.jobc("why", "artifacts/x/local/launch.sh:4").stdout
    )


def test_verify_says_which_lines_of_which_file(shell: Shell) -> None:
    shell.jobc("name=x")
    directory = shell.project / "artifacts/x/local"
    (directory / "slurm-7.out").write_text("")  # where `sbatch job.sbatch` prints
    assert shell.jobc("verify", "artifacts/x/local").returncode == 0
    lines = (directory / "launch.sh").read_text().split("\n")
    lines[3] += " # mine"
    lines.insert(6, "echo hello")
    (directory / "launch.sh").write_text("\n".join(lines))
    (directory / "notes.txt").write_text("x")
    (directory / "jobctl").unlink()
    done = shell.jobc("verify", "artifacts/x/local")
    assert done.returncode == 1
    removed = "hint: rm -- artifacts/x/local/notes.txt"
    foreign = "because: jobc did not write this file"
    for words in ("launch.sh lines 4, 7", "notes.txt (added)", foreign, removed, "jobctl (missing)"):
        assert words in done.stderr
    os.mkfifo(directory / "jobctl")
    assert "jobctl (not a regular file)" in shell.jobc("verify", "artifacts/x/local").stderr
    assert "is not a regular file" in shell.jobc("why", "artifacts/x/local/jobctl:1").stderr


def test_why_shows_choices_and_lists_as_typed(shell: Shell) -> None:
    shell.jobc("name=x", "backend=local", "optim.betas=[0.8,0.9]")
    directory = shell.project / "artifacts/x/local"
    places = []
    for file, text in (("spec.yaml", "  name: local"), ("train.json", '    "betas"')):
        lines = (directory / file).read_text().splitlines()
        places.append(f"artifacts/x/local/{file}:{[line.startswith(text) for line in lines].index(True) + 1}")
    said = shell.jobc("why", *places).stdout
    assert "spec     backend = local\n           command line: backend=local" in said
    assert "spec     optim.betas = [0.8,0.9]\n" in said


def test_why_answers_for_every_line_of_every_file(shell: Shell) -> None:
    shell.jobc("name=x", "env.A=1")
    directory = shell.project / "artifacts/x/local"
    places = []
    for file in sorted(p for p in directory.rglob("*") if p.is_file()):
        count = file.read_text(errors="replace").count("\n")
        copied = file.relative_to(directory).as_posix() == PROGRAM  # where every line is answered alike
        places += [
            f"{file.relative_to(shell.project)}:{n}" for n in ((1, count) if copied else range(1, count + 1)) if n
        ]
    done = shell.jobc("why", *places)
    assert done.returncode == 0, done.stderr
    answers = [
        line for line in done.stdout.splitlines() if line.startswith(("  from ", "  copied ", "  packed ", "  made "))
    ]
    assert len(answers) == len(places)


@pytest.mark.parametrize(
    ("verb", "says"),
    [
        ("submit", "usage: jobc submit DIR|NAME [OPTION …]"),
        ("logs", "  --rank N           the output of global rank N"),
        ("why", "usage: jobc why FILE:LINE"),
        ("run", "--strict"),
        ("compile", "usage: jobc compile [OPTION …]"),
        ("plan", "  --out "),
        ("diff", "  --format "),
        ("stop", "usage: jobc stop DIR|RUN|NAME [OPTION …]"),
    ],
)
def test_the_help_of_a_command_is_its_own(capsys: pytest.CaptureFixture[str], verb: str, says: str) -> None:
    assert main([verb, "--help"]) == 0
    said = capsys.readouterr().out
    assert says in said
    assert len(said.splitlines()) < 30


@pytest.mark.parametrize("words", [[], ["submit"], ["ls"], ["init"], ["why"], ["plan"]])
def test_help_fits_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*words, "--help"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("backend", ["slurm", "ssh"])
def test_help_names_the_options_of_every_verb_of_every_backend(shell: Shell, backend: str) -> None:
    assert shell.jobc(f"backend={backend}", *(["hosts=a"] if backend == "ssh" else [])).returncode == 0
    for verb in VERBS:
        options = options_of_backend_verb(find_plugin(backend), verb)
        assert options.keys() <= options_of_verb(verb).keys()
        done = shell.jobc(verb, f"artifacts/job/{backend}", "--help")
        assert done.returncode == 0 and all(option in done.stdout for option in options), verb
        usage = shell.run([f"artifacts/job/{backend}/jobctl", verb, "--help"]).stdout.partition("\n\n")[0]
        long = sorted(re.findall(r"--[a-z][\w-]*(?: [A-Z=]+)?", usage))
        assert long == sorted(option for option in options if option.startswith("--")), verb
    said = shell.jobc("submit", "--help").stdout
    assert "usage: jobc submit DIR|NAME [OPTION …]" in said and "  --detach " in said and "  --here " in said


OWN = ["--", "train.py"]


@pytest.mark.parametrize(
    ("words", "notes"),
    [
        (["optim.lr=5", *OWN], ["optim.lr is set"]),
        (["seed=5", "optim.lr=5", *OWN], ["seed, optim.lr are set"]),
        (["model=gpt_small", "task=digits", *OWN], ["model, task are set"]),
        (["-m", "optim.lr=1,2", *OWN], ["optim.lr is set"]),
        (["optim.lr=5", "command=[train.py,--lr,${optim.lr}]"], []),
        (["optim.lr=5", "env.LR=${optim.lr}", *OWN], []),
        (["threads=2", "procs=2", "python=none", "backend=local", "parallel=ddp", *OWN], []),
        (["optim.lr=5"], []),
    ],
)
def test_settings_that_an_own_command_does_not_read_are_named(shell: Shell, words: list[str], notes: list[str]) -> None:
    done = shell.jobc(*words)
    assert done.returncode == 0, done.stderr
    titles = re.findall(r"note\[JC2014 [a-z-]+\]: (.*), but", done.stderr)
    assert titles == notes


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--out", "artifacts", *OWN], ""),
        (["--out", "elsewhere", *OWN], ""),
        (["--out", "sub/artifacts", *OWN], "error[JC5008 output-outside-project]: code.root would be in "),
        (["--out", "sub/artifacts", "python=venv", *OWN], "hint: code.root=.. python.path=../.venv, or omit --out"),
        (["check", "--out", "sub/artifacts", *OWN], "error[JC5008 "),
        (["--out", "sub/artifacts"], "note[JC5008 output-outside-project]: runs go to "),
        (["--out", "sub/artifacts", "storage.root=/x"], ""),
        (["code.root=sources", *OWN], "warning[JC5010 upload-source-missing]: /"),
        (["--out", "sub/artifacts", "code.root=..", "storage.root=../runs", *OWN], ""),
    ],
)
def test_artifacts_beside_another_project_are_named(shell: Shell, words: list[str], says: str) -> None:
    done = shell.jobc(*words)
    assert done.returncode == ("error" in says or "hint" in says), done.stderr
    assert says in done.stderr if says else done.stderr == ""


def test_our_own_bug_is_status_2_and_one_line(shell: Shell) -> None:
    program = (
        "import sys, jobc.compiler.cli.compiling as c; from jobc.compiler.cli import main\n"
        "c.check_command = lambda arguments: 1 / 0\nsys.exit(main(['check']))"
    )
    done = shell.run([sys.executable, "-c", program])
    assert done.returncode == 2
    assert "JC9001" in done.stderr
    assert "Traceback" not in done.stderr
