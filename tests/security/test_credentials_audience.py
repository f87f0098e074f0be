"""Kind: a credential without an audience. GIT_TOKEN reaches the host of code.repository over https (http only on
loopback), and no other host, port, scheme, process or file. Two git servers on loopback are the two hosts.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

TOKEN = "token-Zq81"
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
CHECKOUT = """\
import os, sys
from pathlib import Path
from jobc.runtime.code import code_checkout
from jobc.runtime.node.join_attempt import StartFailure, report_start_failure
code_checkout.RETRY_S = 0
try:
    code_checkout.checkout_code(Path(sys.argv[1]), *sys.argv[2:], os.environ)
except StartFailure as failure:
    sys.exit(report_start_failure(failure, os.environ, "train"))
"""


@dataclass
class Server:
    """A git server over http: `git http-backend` on `folder`. It asks for a password and records it."""

    folder: Path
    redirect_to: str = ""
    passwords: list[str] = field(default_factory=list)
    requests: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(self))
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"


def handler_of(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.requests += 1
            credentials = self.headers.get("Authorization", "").removeprefix("Basic ")
            if not credentials:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.end_headers()
                return
            server.passwords.append(base64.b64decode(credentials).decode().partition(":")[2])
            if server.redirect_to:
                self.send_response(302)
                self.send_header("Location", server.redirect_to + self.path)
                self.end_headers()
                return
            self.answer()

        do_POST = do_GET

        def answer(self) -> None:
            path, _, query = self.path.partition("?")
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = subprocess.run(
                ["git", "http-backend"], input=body, capture_output=True, check=True,
                env=clean_environment() | {
                    "GIT_PROJECT_ROOT": str(server.folder), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
                    "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_USER": "git",
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                },
            ).stdout  # fmt: skip
            head, _, content = answer.partition(b"\r\n\r\n")
            self.send_response(200)
            for line in head.decode().splitlines():
                self.send_header(*line.split(": ", 1))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    return Handler


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "SSH_ASKPASS", "JOBC_"))}


def git(*words: str | Path) -> str:
    command = ["git", *IDENTITY, *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=clean_environment()).stdout.strip()


def make_repository(folder: Path, submodule: str = "", of_commit: str = "1" * 40) -> str:
    """Create a repository with train.py and with a submodule's commit. Return the hash of its commit."""
    git("init", "-q", folder)
    git("-C", folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    (folder / "train.py").write_text("print(1)\n")
    git("-C", folder, "add", ".")
    if submodule:
        git("-C", folder, "update-index", "--add", "--cacheinfo", f"160000,{of_commit},sub")
        git("-C", folder, "config", "-f", ".gitmodules", "submodule.sub.path", "sub")
        git("-C", folder, "config", "-f", ".gitmodules", "submodule.sub.url", submodule)
        git("-C", folder, "add", ".gitmodules")
    git("-C", folder, "commit", "-qm", "x")
    return git("-C", folder, "rev-parse", "HEAD")


@dataclass
class Node:
    """The place where node 0 checks out the code: a run folder, its own home, and the job's exported variables."""

    folder: Path
    environment: dict[str, str] = field(default_factory=lambda: {"GIT_TOKEN": TOKEN})

    def checkout(self, repository: str, commit: str, **extra: str) -> tuple[int, str]:
        """Check out the commit into the run's `code`. Return (exit code, output)."""
        run = self.folder / "run"
        run.mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", CHECKOUT, run, repository, commit], capture_output=True, text=True,
            env=clean_environment() | {"HOME": str(self.folder)} | self.environment | extra, timeout=60, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def configure(self, *words: str) -> None:
        git("config", "-f", self.folder / ".gitconfig", *words)

    def has_token_in_files(self) -> bool:
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        return any(TOKEN.encode() in path.read_bytes() for path in files)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    (tmp_path / "node").mkdir()
    return Node(tmp_path / "node")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(name: str, redirect_to: str = "") -> Server:
        servers.append(Server(tmp_path / name, redirect_to))
        return servers[-1]

    yield start
    for each in servers:
        each.http.shutdown()
        each.http.server_close()


def test_the_repository_and_its_submodules_on_the_same_host_get_the_token(
    node: Node, server: Callable[..., Server]
) -> None:
    ours = server("ours")
    inner = make_repository(ours.folder / "inner")
    commit = make_repository(ours.folder / "outer", "../inner", inner)
    code, output = node.checkout(f"{ours.url}/outer", commit)
    assert code == 0, output
    assert (node.folder / "run/code/sub/train.py").exists()
    assert set(ours.passwords) == {TOKEN}
    assert not node.has_token_in_files() and TOKEN not in output


@pytest.mark.parametrize("inherited", [(), ("credential.helper", "!echo username=a; echo password=stored #")])
def test_a_submodule_of_another_host_gets_no_credential(
    node: Node, server: Callable[..., Server], inherited: tuple[str, ...]
) -> None:
    ours, other = server("ours"), server("other")
    if inherited:
        node.configure(*inherited)
    commit = make_repository(ours.folder / "a", f"{other.url}/b")
    code, output = node.checkout(f"{ours.url}/a", commit)
    assert other.requests and other.passwords == []
    assert code == 1 and "cannot fetch the submodules" in output and "on the host of code.repository" in output
    assert TOKEN not in output and not (node.folder / "run/code").exists()


def test_a_redirect_to_another_host_gets_no_credential(node: Node, server: Callable[..., Server]) -> None:
    other = server("other")
    ours = server("ours", redirect_to=other.url)
    commit = make_repository(other.folder / "a")
    code, output = node.checkout(f"{ours.url}/a", commit, GIT_CONFIG_COUNT="1",
                                 GIT_CONFIG_KEY_0="http.followRedirects", GIT_CONFIG_VALUE_0="true")  # fmt: skip
    assert code == 1 and set(ours.passwords) == {TOKEN}
    assert other.requests and other.passwords == [] and TOKEN not in output


@pytest.mark.parametrize(
    "repository",
    [
        "http://example.invalid/a",
        "http://127.0.0.1.example.invalid/a",
        "http://localhost@example.invalid/a",
        "http://10.0.0.1:80/a",
        "https://*/a",
        "https:///a",
    ],
)
def test_the_token_is_for_no_plain_http_and_no_pattern_of_hosts(node: Node, repository: str) -> None:
    code, output = node.checkout(repository, "0" * 40)
    assert code == 65 and output.count("error:") == 1 and "GIT_TOKEN" in output and TOKEN not in output


@pytest.mark.parametrize(
    ("repository", "commit"),
    [
        ("ext::sh -c touch% {mark}", "0" * 40),
        ("fd::7", "0" * 40),
        ("--upload-pack=touch {mark}", "0" * 40),
        ("https://example.invalid/a", "--upload-pack=touch {mark}"),
        ("https://example.invalid/a", "main"),
    ],
)
def test_a_repository_or_a_commit_is_no_command_and_no_option(
    node: Node, tmp_path: Path, repository: str, commit: str
) -> None:
    node.configure("protocol.allow", "always")
    mark = tmp_path / "mark"
    code, output = node.checkout(repository.format(mark=mark), commit.format(mark=mark), GIT_ALLOW_PROTOCOL="ext:fd")
    assert code == 65 and output.count("error:") == 1 and not mark.exists()


@pytest.mark.parametrize("url", ["ext::touch {mark}", "file://{other}", "{other}"])
def test_a_submodule_runs_no_command_and_reads_no_local_repository(
    node: Node, tmp_path: Path, server: Callable[..., Server], url: str
) -> None:
    for key in ("protocol.allow", "protocol.ext.allow", "protocol.file.allow"):
        node.configure(key, "always")
    make_repository(tmp_path / "private")
    mark = tmp_path / "mark"
    ours = server("ours")
    commit = make_repository(ours.folder / "a", url.format(mark=mark, other=tmp_path / "private"))
    code, output = node.checkout(f"{ours.url}/a", commit, GIT_ALLOW_PROTOCOL="ext:file:http")
    assert code == 1 and "not allowed" in output and not mark.exists()


def test_no_hook_runs_and_nobody_is_asked(node: Node, tmp_path: Path, server: Callable[..., Server]) -> None:
    mark = tmp_path / "mark"
    for folder in ("hooks", "template/hooks"):
        hook = tmp_path / folder / "post-checkout"
        hook.parent.mkdir(parents=True)
        hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
        hook.chmod(0o755)
    node.configure("core.hooksPath", str(tmp_path / "hooks"))
    ours = server("ours")
    commit = make_repository(ours.folder / "a")
    code, output = node.checkout(f"{ours.url}/a", commit, GIT_TEMPLATE_DIR=str(tmp_path / "template"))
    assert code == 0 and not mark.exists(), output

    node.environment = {}
    (node.folder / "run/code").rename(tmp_path / "elsewhere")
    asked = str(tmp_path / "hooks/post-checkout")
    code, output = node.checkout(f"{ours.url}/a", commit, GIT_ASKPASS=asked, SSH_ASKPASS=asked)
    assert code == 1 and not mark.exists() and "could not read Username" in output


@pytest.mark.parametrize(
    "variables",
    [
        {"GIT_DIR": "/nonexistent"},
        {"GIT_WORK_TREE": "/nonexistent", "GIT_DIR": "/nonexistent"},
        {"GIT_INDEX_FILE": "/nonexistent/index"},
        {"GIT_CONFIG_PARAMETERS": "'credential.helper='"},
        {"GIT_TRACE_CURL": "1", "GIT_TRACE_REDACT": "0", "GIT_TRACE": "1"},
    ],
)
def test_variables_of_git_change_neither_the_checkout_nor_what_is_printed(
    node: Node, server: Callable[..., Server], variables: Mapping[str, str]
) -> None:
    ours = server("ours")
    commit = make_repository(ours.folder / "a")
    code, output = node.checkout(f"{ours.url}/a", commit, **variables)
    assert code == 0 and (node.folder / "run/code/train.py").exists(), output
    assert TOKEN not in output and base64.b64encode(f"git:{TOKEN}".encode()).decode() not in output
