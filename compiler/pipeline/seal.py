"""Complete .jobc/job.json: add the artifact's path, the job's records, and the seal, which contains the checksums."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from ... import __version__
from ..emit import job_json
from ..emit.artifact import Artifact, LineRange
from ..emit.artifact_dir import artifact_digest, file_checksums
from ..emit.source_map import SEAL
from ..frontend.compose import used_config_files
from .types import CompileRequest


def request_to_record(request: CompileRequest, words: list[str]) -> dict[str, Any]:
    """Return the arguments with which this compile can be repeated, without the user's own config folders."""
    return {
        "words": words,
        "command": None if request.command is None else list(request.command),
        "config_name": request.config_name,
        "strict": request.strict,
    }


def seal_artifact(
    files: Sequence[Artifact],
    place: str,
    records: Mapping[str, Sequence[str]],
    inputs: Mapping[str, str],
    request: Mapping[str, Any],
    plugin: str | None = None,
) -> tuple[Artifact, ...]:
    """Return all files of an artifact directory: the emitted files, and job.json with everything that is recorded.

    files:   include job.json with the settings that jobctl reads
    place:   NAME/BACKEND
    records: see common_files.records()
    inputs:  digests of the config files, and of files named by the spec, such as hosts=@FILE
    request: see request_to_record()
    plugin:  version of the package that contains the backend, or None for jobc's own
    The digest, which people can quote, is the SHA-256 of the lines `PATH SHA256 EXECUTABLE` of all files, sorted by
    path. The digest depends only on what a run can read. Therefore, the same job has the same digest whether its values
    are typed or come from a config file, and different jobc versions give the same digest if they write identical
    files.
    """
    others = [file for file in files if file.path != job_json.JOB]
    (job,) = (file for file in files if file.path == job_json.JOB)
    settings = {**json.loads(job.text), "place": place, **{key: list(lines) for key, lines in records.items()}}
    unsealed = job_json.to_canonical_text(settings)
    entries = {
        **file_checksums(others),
        job_json.JOB: {"sha256": sha256(unsealed.encode()).hexdigest(), "executable": False},
    }
    seal = {
        "digest": artifact_digest(entries),
        "versions": {"jobc": __version__, **({} if plugin is None else {"plugin": plugin})},
        "request": request,
        "inputs": dict(sorted(inputs.items())),
        "checksums": dict(sorted(entries.items())),
    }
    text = unsealed.removesuffix("\n}\n") + ",\n" + job_json.to_canonical_text(seal).removeprefix("{\n")
    kept = job.text.count("\n") - 1  # all lines of the settings except the final `}`
    lines = [span for span in job.lines if span.last <= kept]
    return (*others, Artifact(job_json.JOB, text, lines=(*lines, LineRange(kept + 1, text.count("\n"), (), SEAL))))


def input_digests() -> dict[str, str]:
    """Return the digests of the config files that the last composed config uses."""
    return {source: sha256(text.encode()).hexdigest() for source, text in used_config_files().items()}
