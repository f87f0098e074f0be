"""What bash completes after `jobc`."""

from __future__ import annotations

from ..shell import Shell

COMPLETIONS = {
    "jobc backend=l": ["backend=local"],
    "jobc task=g": ["task=gpt2_124m", "task=gpt_small", "task=gpt_tiny"],
    "jobc ver": ["verify "],
    "jobc nod": ["nodes="],
    "jobc optim.warm": ["optim.warmup_steps="],
    "jobc loop.precision=": ["loop.precision=bf16", "loop.precision=fp16", "loop.precision=fp32"],
    "jobc loop.drop_last=t": ["loop.drop_last=true"],
    "jobc --conf": ["--config-dir ", "--config-name "],
    "jobc backend.det": ["backend.detach="],
    "jobc -- tr": [],
    "jobc st": ["storage.", "status ", "stop "],
    "jobc lo": ["loader.", "loop.", "loss.", "loss=", "logs "],
    "jobc status my": ["myjob "],
    "jobc stop x artifacts/": [],
}


def test_bash_completes_keys_groups_and_options(shell: Shell) -> None:
    """In a real bash: its own function, called as readline would call it."""
    shell.write("jobc/task/mine.yaml", "# @package _global_\n")
    shell.write("artifacts/myjob/local/launch.sh", "")
    script = ['eval "$(jobc completion bash)"', "COMP_WORDBREAKS=${COMP_WORDBREAKS//=/}"]
    for line in [*COMPLETIONS, "jobc task=m"]:
        script.append(f"COMP_LINE={line!r} COMP_POINT={len(line)}; _jobc; printf '%s|' \"${{COMPREPLY[@]}}\"; echo")
    done = shell.run(["bash", "-euc", "\n".join(script)])
    assert done.returncode == 0, done.stderr
    found = [[word for word in line.split("|") if word] for line in done.stdout.splitlines()]
    assert dict(zip(COMPLETIONS, found, strict=False)) == COMPLETIONS
    assert found[-1] == ["task=mine"], "options of the user's own folders"


def test_completion_where_bash_splits_at_the_equals_sign(shell: Shell) -> None:
    script = 'eval "$(jobc completion bash)"; COMP_LINE="jobc task=dig" COMP_POINT=13; _jobc; echo "${COMPREPLY[@]}"'
    assert shell.run(["bash", "-euc", script]).stdout == "digits\n"
