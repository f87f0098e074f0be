"""The ConfigMap at the end of job.yaml: the files that each pod reads, and start.py, which each pod runs first.

In:  the job's rendered files, and the jobctl program for the nodes.
Out: job.yaml with the ConfigMap: launch.sh and other text files unchanged, jobctl compressed.
Source: Kubernetes API reference, ConfigMap v1 core: keys contain no slash, and the data is at most 1 MiB. `kubectl
apply` without --server-side stores a second copy of the object in an annotation, and annotations hold at most 256 KiB.
"""

import base64
import bz2
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import yaml

from ...compiler.emit.artifact import PROGRAM, Artifact, LineRange
from ...compiler.emit.job_json import JOB
from ...compiler.emit.source_map import DIGEST, PACKED
from .pod import JOB_LABEL
from .pod_beside_job import LONE_POD

START = "start.py"  # engine/join.py unpacks all files but this one and jobctl
NOT_FOR_NODES = (LONE_POD, "ignored")  # keys of job.json
SOURCE = "jobc:backends/kubernetes"
WIDTH = 110  # base64 characters per line
HEAD = """\
---
# Files of each pod. start.py unpacks jobctl.bz2 and starts `jobctl join`, which unpacks the rest and runs launch.sh.
apiVersion: v1
kind: ConfigMap
immutable: true
metadata:
  name: {name}
{namespace}  labels: {{{label}: {name}}}
data:
"""


def add_config_map(
    manifest: Artifact, name: str, files: Sequence[Artifact], settings: Artifact, program: bytes
) -> Artifact:
    """Return job.yaml with the ConfigMap.

    name: the ConfigMap's name
    settings: job.json
    program: the jobctl program for the nodes
    """
    of_nodes = {key: value for key, value in json.loads(settings.text).items() if key not in NOT_FOR_NODES}
    ranges = tuple(r for r in settings.lines if not r.template.startswith(tuple(f"data at {k}" for k in NOT_FOR_NODES)))
    origin = _whole_file_origin(replace(settings, lines=ranges))
    one_line = Artifact(JOB, json.dumps(of_nodes, ensure_ascii=False), lines=(origin,))
    namespace = f"  namespace: {json.dumps(of_nodes['namespace'])}\n" if of_nodes["namespace"] else ""
    head = HEAD.format(name=name, namespace=namespace, label=JOB_LABEL)
    pieces = [
        _artifact_from_template("", head, SOURCE, ("name", "options.namespace", DIGEST)),
        *(_config_map_entry(file) for file in (*files, start_script(), one_line)),
        compressed_jobctl_lines(program),
    ]
    text, lines = manifest.text, list(manifest.lines)
    for piece in pieces:
        above = text.count("\n")
        text += piece.text
        lines += [LineRange(r.first + above, r.last + above, (*r.keys, *piece.chosen), r.template) for r in piece.lines]
    return replace(manifest, text=text, lines=tuple(lines))


def _config_map_entry(file: Artifact) -> Artifact:
    """Return a file's entry: its text as a block, or as one quoted line if YAML cannot write it as a block."""
    assert "--" not in file.path
    key, text = file.path.replace("/", "--"), file.text  # keys contain no slash
    is_shown = text[:1].strip() and not text.endswith("\n\n") and all(c.isprintable() or c in "\n\t" for c in text)
    if not is_shown:
        quoted = str(yaml.safe_dump(text, default_style='"', width=10**9)).rstrip("\n")
        return replace(file, text=f"  {key}: {quoted}\n", lines=(_whole_file_origin(file),))
    head = f"  {key}: |\n" if text.endswith("\n") else f"  {key}: |-\n"
    rows = (f"    {row}\n" if row else "\n" for row in text.removesuffix("\n").split("\n"))
    lines = [LineRange(r.first + 1, r.last + 1, r.keys, r.template) for r in file.lines]
    return replace(file, text=head + "".join(rows), lines=(LineRange(1, 1, (), SOURCE), *lines))


def _whole_file_origin(file: Artifact) -> LineRange:
    return LineRange(1, 1, tuple(dict.fromkeys(key for r in file.lines for key in r.keys)), file.path)


def _artifact_from_template(path: str, text: str, template: str, keys: tuple[str, ...] = ()) -> Artifact:
    return Artifact(path, text, lines=(LineRange(1, text.count("\n"), keys, template),))


@cache
def start_script() -> Artifact:
    text = (Path(__file__).parent / "templates" / START).read_text(encoding="utf-8")
    return _artifact_from_template(START, text, f"{SOURCE}/templates/{START}")


@cache
def compressed_jobctl_lines(program: bytes) -> Artifact:
    """Return jobctl, compressed, as lines that end with a backslash, so that YAML joins them without spaces."""
    encoded = base64.b64encode(bz2.compress(program)).decode("ascii")
    pieces = [encoded[start : start + WIDTH] for start in range(0, len(encoded), WIDTH)]
    text = f'binaryData:\n  {PROGRAM}.bz2: "' + "\\\n    ".join(pieces) + '"\n'
    return _artifact_from_template(PROGRAM, text, PACKED)
