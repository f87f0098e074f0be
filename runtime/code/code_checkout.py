"""Check out the user's code from a git repository, at one commit, into RUN/code.

In:  the repository (an https, ssh, git or http URL, or a path) and the commit. If GIT_TOKEN is one of the job's
     secrets, git sends it as the https password, but only to the repository's host and port.
Out: RUN/code with its submodules, writable by the ranks. Otherwise, StartFailure is raised: with exit code 65 if the
     commit does not exist, or 1 if the repository does not respond to three requests.

Git never prompts and runs no hooks. Its settings are passed in environment variables, not in a file or on a command
line.
Source: git-config(1), gitcredentials(7); git 2.31 and newer (GIT_CONFIG_COUNT).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from ..exit_codes import CRASHED, DATA_BROKEN
from ..node.join_attempt import SPACE_HINT, StartFailure, call_or_fail_start
from ..run_folder.removal import remove_folder
from .git import environment_without_git

TRIES = 3
RETRY_S = 5.0
_COMMIT = re.compile("[0-9a-f]{40}([0-9a-f]{24})?")
_LOCAL = re.compile(r"(localhost|127(\.[0-9]+){3}|\[::1\])(:[0-9]+)?")
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?")
_HTTP = re.compile("https?://")
_ABSENT = ("not our ref", "bad object")  # git's messages for a commit that the repository does not have
_BRANCHES = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
_UNSET = ("GIT_ALLOW_PROTOCOL", "SSH_ASKPASS", "GIT_CONFIG_PARAMETERS")
_PASSWORD = '!printf "username=git\\npassword=%s\\n" "$GIT_TOKEN" #'  # run by git's shell; any user name works


def checkout_code(run: Path, repository: str, commit: str, environ: Mapping[str, str]) -> None:
    """Create RUN/code if it does not exist. Raises StartFailure."""
    code, copy = run / "code", run / ".code"
    if code.is_dir():
        return
    if shutil.which("git", path=environ.get("PATH")) is None:
        title = f"git was not found on {os.uname().nodename}"
        raise StartFailure(DATA_BROKEN, title, "install git in the image; or code=image")
    check_repository_and_commit(repository, commit, environ)
    if os.path.lexists(copy):
        call_or_fail_start(f"remove {copy}", remove_folder, copy)
    call_or_fail_start(f"create the folder {run}", run.mkdir, parents=True, exist_ok=True)
    environ_without_git, clone_environ = environment_without_git(environ), environment_for_clone(repository, environ)
    _run_or_fail_start(
        f"create {copy}", ["git", "init", "--quiet", "--template=", "--", str(copy)], environ_without_git
    )
    git_command = ["git", "-C", str(copy)]
    # a submodule URL such as ../NAME is relative to this URL
    _run_or_fail_start(
        f"write to {copy}", [*git_command, "config", "remote.origin.url", repository], environ_without_git
    )
    _fetch_commit(git_command, repository, commit, clone_environ, environ_without_git)
    _run_or_fail_start(f"check out {commit}", [*git_command, "checkout", "--quiet", "--detach", commit], clone_environ)
    if (copy / ".gitmodules").is_file():
        _fetch_submodules(git_command, commit, clone_environ)
    call_or_fail_start(f"move the code to {code}", copy.rename, code)


def check_repository_and_commit(repository: str, commit: str, environ: Mapping[str, str]) -> None:
    """Raise StartFailure if git would treat an argument as an option or command, or send the token unencrypted."""
    if repository.startswith("-") or re.match("[A-Za-z0-9]+::", repository):
        title = f"code.repository is not a URL that jobc can fetch: {repository}"
        raise StartFailure(DATA_BROKEN, title, "https://HOST/NAME, ssh://HOST/NAME or USER@HOST:NAME")
    if not _COMMIT.fullmatch(commit):
        hint = "git rev-parse HEAD prints the current commit"
        raise StartFailure(DATA_BROKEN, f"code.commit is not a commit: {commit}", hint)
    if not environ.get("GIT_TOKEN") or not _HTTP.match(repository):
        return
    host = host_of_url(repository)
    if repository.startswith("http://") and not _LOCAL.fullmatch(host):
        title = f"GIT_TOKEN is not sent over http, where anyone on the network could read it: {repository}"
        hint = "use https in code.repository; or remove secrets.GIT_TOKEN for a public repository"
        raise StartFailure(DATA_BROKEN, title, hint)
    if not _HOST.fullmatch(host):
        title = f"code.repository has no host to which GIT_TOKEN could be sent: {repository}"
        raise StartFailure(DATA_BROKEN, title, "https://HOST/NAME")


def host_of_url(url: str) -> str:
    """Return a URL's HOST or HOST:PORT, without a user."""
    host = re.split("[/?#]", url.split("://", 1)[-1], maxsplit=1)[0]
    return host.split("@", 1)[-1]


def environment_for_clone(repository: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which git reads the password from GIT_TOKEN, and ignores the user's settings."""
    kept = {name: value for name, value in environment_without_git(environ).items() if name not in _UNSET}
    count = kept.get("GIT_CONFIG_COUNT", "")
    # our settings come after the caller's, so ours win
    first = int(count) if re.fullmatch("[1-9][0-9]{0,3}", count) else 0
    settings = _git_settings(repository, bool(environ.get("GIT_TOKEN")))
    numbered = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (key, value) in enumerate(settings, first):
        numbered.update({f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value})
    return {**kept, **_QUIET, **numbered}


_QUIET = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new",
    "GIT_TRACE_REDACT": "1",
}


def _git_settings(repository: str, has_token: bool) -> list[tuple[str, str]]:
    settings = [("core.hooksPath", "/dev/null")]
    settings += [(f"protocol.{name}", "never") for name in ("allow", "ext.allow", "fd.allow")]  # ext:: runs a command
    settings += [(f"protocol.{name}.allow", "always") for name in ("https", "http", "ssh", "git")]
    settings.append(("protocol.file.allow", "user"))  # for code.repository, but not for a submodule
    # after a redirect to another host, no password is sent
    settings.append(("http.followRedirects", "initial"))
    if has_token:
        settings.append(("credential.helper", ""))  # drop helpers from other configuration files
        if _HTTP.match(repository):
            scope = f"{repository.partition('://')[0]}://{host_of_url(repository)}"
            settings += [(f"credential.{scope}.helper", ""), (f"credential.{scope}.helper", _PASSWORD)]
    return settings


def _fetch_commit(
    git_command: list[str],
    repository: str,
    commit: str,
    clone_environ: Mapping[str, str],
    environ_without_git: Mapping[str, str],
) -> None:
    """Fetch only the commit, or all branches if the server cannot send a commit by its hash. Tries three times."""
    alone = [*git_command, "fetch", "--quiet", "--depth=1", "--no-tags", "--", repository, commit]
    everything = [*git_command, "fetch", "--quiet", "--", repository, *_BRANCHES]
    for remaining in reversed(range(TRIES)):
        code, output = _run_command(alone, clone_environ)
        if code:
            code, more = _run_command(everything, clone_environ)
            output += more
            if code == 0:
                code, more = _run_command([*git_command, "cat-file", "-e", f"{commit}^{{commit}}"], environ_without_git)
                output += more
        if code == 0:
            return
        if any(words in output for words in _ABSENT):
            hint = "push the commit with git push, or set code.commit to an existing commit"
            raise StartFailure(DATA_BROKEN, f"commit {commit} is not in {repository}", hint)
        if remaining:
            time.sleep(RETRY_S)
    title = f"cannot fetch commit {commit} of {repository}: {_last_line(output)}"
    raise StartFailure(CRASHED, title, "a private repository needs secrets.GIT_TOKEN and https")


def _fetch_submodules(git_command: list[str], commit: str, clone_environ: Mapping[str, str]) -> None:
    words = [*git_command, "submodule", "--quiet", "update", "--init", "--recursive", "--depth=1"]
    code, output = _run_command(words, clone_environ)
    if code:
        reason = next((line for line in output.split("\n") if line.startswith("fatal: ")), _last_line(output))
        hint = (
            "submodules must use https, http, ssh or git; private ones must be on the host of code.repository, because"
            " GIT_TOKEN is only sent there"
        )
        raise StartFailure(CRASHED, f"cannot fetch the submodules of {commit}: {reason}", hint)


def _run_or_fail_start(what: str, words: list[str], environ: Mapping[str, str]) -> None:
    code, output = _run_command(words, environ)
    if code:
        raise StartFailure(CRASHED, f"cannot {what}: {_last_line(output).rpartition(': ')[2]}", SPACE_HINT)


def _run_command(words: list[str], environ: Mapping[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        words, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return done.returncode, done.stdout.decode(errors="replace")


def _last_line(output: str) -> str:
    return output.rstrip("\n").rpartition("\n")[2]
