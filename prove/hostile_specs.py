"""Draw specs that an attacker might publish: words and config files that read the machine, break out, or explode."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

from .forgeries import commands, oddities

BACKENDS = (
    ("backend=local",),
    ("backend=slurm", "nodes=2", "gpus=1"),
    ("backend=ssh", "nodes=2", "hosts=[a,b]"),
    ("backend=kubernetes", "code=image", "container.image=x:1"),
    ("backend=skypilot", "gpu_type=H100", "gpus=1"),
)
TEXT_KEYS = (
    "name", "queue.account", "queue.partition", "queue.qos", "queue.reservation", "env.X", "labels.x", "storage.root",
    "storage.data", "container.image", "gpu_type", "hosts", "experiment", "env.PATH", "secrets.X", "backend.extra.x",
    "network.interface", "python", "code.path", "data.path", "notify", "command",
)  # fmt: skip
ENVIRONMENT = (
    "${oc.env:SECRET_TOKEN}", "\\\\${oc.env:SECRET_TOKEN}", "\\${oc.env:SECRET_TOKEN}", "${oc.env:${env.N}}",
    '${oc.decode:"\\${oc.env:SECRET_TOKEN}"}', "${oc.decode:'${oc.env:SECRET_TOKEN}'}", "${ oc.env : SECRET_TOKEN }",
    "${oc.select:env.Y,${oc.env:SECRET_TOKEN}}", "${oc.create:'${oc.env:SECRET_TOKEN}'}", "${oc.env:SECRET_TOKEN,x}",
    "${hydra:runtime.cwd}", "${oc.dict.values:env}", "${oc.deprecated:env.Y}", "${env.Y}", "${oc.decode:${env.Y}}",
)  # fmt: skip


def draw_spec(project: Path, outside: Path, mark: Path, home: Path, chance: Random) -> list[str]:
    """Write config files into `project`, and return the words of the command line."""
    kind = chance.choice((_environment, _outside, _structure, _structure, _bomb, _defaults, _random))
    return [*chance.choice(BACKENDS), *kind(project, outside, mark, home, chance)]


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _file(project: Path, text: str) -> list[str]:
    folder = project / "jobc" / "cluster"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.yaml").write_text(text, encoding="utf-8", errors="surrogatepass")
    return ["cluster=mine"]


def _global(tree: object) -> str:
    return "# @package _global_\n" + json.dumps(tree)


def _environment(project: Path, outside: Path, mark: Path, home: Path, chance: Random) -> list[str]:
    value = chance.choice(ENVIRONMENT)
    if chance.random() < 0.5:
        return [f"env.X={value}" if chance.random() < 0.5 else f"env.X={_quoted(value)}", "env.N=SECRET_TOKEN"]
    inner = {"X": value, "Y": chance.choice(ENVIRONMENT), "N": "SECRET_TOKEN", "Z": "${env.X}"}
    key = chance.choice(("env", "labels"))
    return _file(project, _global({key: inner, "name": chance.choice(("n", value))}))


def _outside(project: Path, outside: Path, mark: Path, home: Path, chance: Random) -> list[str]:
    path = chance.choice((
        "~/token", str(home / "token"), str(outside), f"../{outside.name}", "/proc/self/environ", "/etc/shadow",
        "/dev/zero", "/proc/kmsg", "link", "pipe",
    ))  # fmt: skip
    (project / "link").symlink_to(outside)
    os.mkfifo(project / "pipe")
    return _file(project, _global({"hosts": f"@{path}"}))


def _structure(project: Path, outside: Path, mark: Path, home: Path, chance: Random) -> list[str]:
    pieces = [
        "\n#SBATCH --nodes=9",
        "\n#PBS -W umask=000",
        "\nEOF\n",
        "'",
        '"',
        "\n---\n",
        "# ",
        "\r",
        "\u2028",
        "%",
        ": ",
    ]
    value = chance.choice(("lab", "")) + chance.choice(pieces) + chance.choice(commands(mark))
    key = chance.choice(TEXT_KEYS)
    if chance.random() < 0.5:
        return [f"{key}={_quoted(value)}"]
    section, _, leaf = key.partition(".")
    return _file(project, _global({section: {leaf: value} if leaf else value}))


def _bomb(project: Path, outside: Path, mark: Path, home: Path, chance: Random) -> list[str]:
    doubling = {f"V{n}": f"${{env.V{n + 1}}}" * chance.choice((2, 5)) for n in range(40)} | {"V40": "x"}
    aliases = "# @package _global_\nlabels:\n  a: &a x\n" + "".join(
        f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else '*a'] * 9)}]\n" for n in range(12)
    )
    texts = {
        "doubling": _global({"env": doubling}),
        "aliases": aliases,
        "deep": "env: " + "{a: " * 5000 + "}" * 5000,
        "long": "# @package _global_\nenv: {X: '" + "x" * 20_000_000 + "'}\n",
        "cycle": _global({"env": {"A": "${env.B}", "B": "${env.A}"}}),
        "mapping": _global({"labels": {f"k{n}": "${labels}" for n in range(5)}}),
    }
    words = ("hosts=node[1-999999999]", "nodes=" + "9" * 4000, "env.X=" + "[" * 2000, "hosts=" + "n[1-9999]" * 5)
    return [chance.choice(words)] if chance.random() < 0.3 else _file(project, texts[chance.choice(sorted(texts))])


def _defaults(project: Path, outside: Path, mark: Path, home: Path, chance: Random) -> list[str]:
    (project.parent / "foreign.yaml").write_text("env: {LEAK: canary-5f1c0a7e}\n")
    up = "../" * chance.choice((1, 2, 3, 4, 8))
    option = chance.choice((
        f"/{up}foreign", f"{up}foreign", f"/cluster/{up}foreign", str(project.parent / "foreign"),
        "${oc.env:SECRET_TOKEN}", f"cluster: {up}foreign", f"/cluster@_global_: {up}foreign", "pkg://os",
        f"file://{project.parent}/foreign",
    ))  # fmt: skip
    if chance.random() < 0.3:
        return [f"cluster={up}foreign", f"+experiment={up}foreign"]
    extra = "hydra: {searchpath: ['file:///etc']}\n" if chance.random() < 0.2 else ""
    return _file(project, f"defaults:\n  - {option}\n{extra}")


def _random(project: Path, outside: Path, mark: Path, home: Path, chance: Random) -> list[str]:
    words = []
    for _ in range(chance.choice((1, 2, 3))):
        value = chance.choice([*commands(mark), *oddities(outside)]).replace("\0", "")[:5000]
        words.append(f"{chance.choice(TEXT_KEYS)}={value if chance.random() < 0.3 else _quoted(value)}")
    return words
