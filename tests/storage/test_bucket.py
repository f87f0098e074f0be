"""The S3 client: signatures like those of Amazon's own library, large objects, and stores that refuse."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from jobc.runtime.storage import bucket as client
from jobc.runtime.storage.bucket import Bucket, BucketError
from jobc.runtime.storage.credentials import CredentialCache, Credentials
from jobc.runtime.storage.signature import encode_query, percent_encode_path, sign_headers

from .s3_server import REGION, S3Server

KEYS = [
    "plain",
    "a b/c+d",
    "ü/日本",
    "per%20cent",
    "q?x=1&y#z",
    "~._-",
    "two//slashes",
    "(a)*'!,;:@$=",
    "step_00000100/x.pt",
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("token", ["", "a/session+token=="])
def test_a_signature_is_that_of_amazons_own_library(key: str, token: str) -> None:
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials as Known

    who = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", token)
    query = {"uploadId": "a+b/c=", "partNumber": "7", "prefix": key}
    now = float(int(time.time()))
    digest, condition = hashlib.sha256(b"x").hexdigest(), {"If-None-Match": "*"}
    address = ("PUT", "host.example:9000", f"/b/{key}", query)
    fields = sign_headers(*address, condition, digest, who, "eu-west-1", now)
    url = f"http://host.example:9000{percent_encode_path(f'/b/{key}')}?{encode_query(query)}"
    request = AWSRequest("PUT", url, {"If-None-Match": "*"}, b"x")
    request.context["timestamp"] = fields["x-amz-date"]
    request.context["payload_signing_enabled"] = True
    signer = S3SigV4Auth(Known(who.key, who.secret, token or None), "s3", "eu-west-1")
    for name in ("Host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"):
        if name in fields:
            request.headers[name] = fields[name]
    canonical = signer.canonical_request(request)
    assert fields["Authorization"].endswith(
        f"Signature={signer.signature(signer.string_to_sign(request, canonical), request)}"
    )


@pytest.mark.parametrize("key", KEYS)
def test_any_key_comes_back(server: S3Server, key: str) -> None:
    bucket = server.bucket("odd keys/é")
    assert bucket.put(key, key.encode()) and bucket.get(key) == key.encode()
    assert key in [found.key for found in bucket.list("")]
    bucket.delete([key])
    assert bucket.get(key) is None


def test_only_the_first_put_counts_where_that_is_asked(server: S3Server) -> None:
    bucket = server.bucket()
    assert bucket.put("first", b"1", only_new=True) and not bucket.put("first", b"2", only_new=True)
    assert bucket.get("first") == b"1"


def test_a_long_list_comes_in_pages(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAGE", 2)
    bucket = server.bucket("pages")
    for i in range(5):
        bucket.put(f"x/{i}", b"")
    assert [found.key for found in bucket.list("x/")] == [f"x/{i}" for i in range(5)]


def test_a_large_file_goes_and_comes_in_parts(server: S3Server, tmp_path: Path) -> None:
    bucket, here, back = server.bucket(), tmp_path / "here", tmp_path / "back"
    here.write_bytes(os.urandom(2 * client.PART_BYTES + 7))
    bucket.put_file("large", here)
    (found,) = bucket.list("large")
    assert found.size == here.stat().st_size and found.age_s < 60
    bucket.get_file("large", back, found.size)
    assert back.read_bytes() == here.read_bytes()


@contextmanager
def answering(*answers: tuple[int, str]) -> Iterator[tuple[str, list[str]]]:
    """Run a store that gives these responses in order, and then repeats the last one. Yield (its address, its
    requests).
    """
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append(f"{self.command} {self.path}")
            status, body = answers[min(len(asked), len(answers)) - 1]
            self.send_response(status)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        do_GET = do_PUT = do_POST = do_DELETE = answer

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as store:
        threading.Thread(target=store.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{store.server_port}", asked
        store.shutdown()


SLOW_DOWN = (503, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")


def test_a_store_that_is_busy_is_asked_again_with_longer_pauses() -> None:
    pauses: list[float] = []
    with answering(SLOW_DOWN, (500, ""), (200, "")) as (endpoint, asked):
        bucket = Bucket(
            "s3://b", endpoint, REGION, CredentialCache({"AWS_EC2_METADATA_DISABLED": "true"}, REGION), pauses.append
        )
        assert bucket.put("key", b"x")
    assert len(asked) == 3 and len(pauses) == 2 and pauses[0] < 0.7 and 0.3 < pauses[1] < 1.3


def test_a_store_without_conditions_is_asked_what_it_has() -> None:
    none = "<Error><Code>NotImplemented</Code></Error>"
    with answering((501, none), (404, ""), (200, "")) as (endpoint, asked):
        bucket = Bucket("s3://b", endpoint, REGION, CredentialCache({"AWS_EC2_METADATA_DISABLED": "true"}, REGION))
        assert bucket.put("key", b"x", only_new=True)
    assert asked == ["PUT /b/key", "GET /b/key", "PUT /b/key"]


def test_an_object_of_any_size_is_not_read_into_memory(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LARGEST_ANSWER", 1 << 20)
    bucket = server.bucket("sizes")
    bucket.put("fits", b"x" * (1 << 20))
    bucket.put("too large", b"x" * ((1 << 20) + 1))
    assert len(bucket.get("fits") or b"") == 1 << 20
    with pytest.raises(BucketError, match="is larger than 1 MiB") as refused:
        bucket.get("too large")
    assert refused.value.code == 65


def test_a_store_that_stays_away_ends_with_69() -> None:
    wallet = CredentialCache({"AWS_EC2_METADATA_DISABLED": "true"}, REGION)
    with pytest.raises(BucketError, match="does not respond: ConnectionRefusedError") as away:
        Bucket("s3://b", "http://127.0.0.1:9", REGION, wallet, pause=lambda _: None).get("x")
    assert away.value.code == 69
    with answering(SLOW_DOWN) as (endpoint, _), pytest.raises(BucketError, match=r"HTTP 503 SlowDown \(7 attempts\)"):
        Bucket("s3://b", endpoint, REGION, wallet, pause=lambda _: None).get("x")


def test_what_starting_again_cannot_mend_ends_with_65(server: S3Server) -> None:
    no_such = Bucket("s3://no-such-bucket", server.endpoint, REGION, CredentialCache(server.environment, REGION))
    stranger, liar = server.bucket(AWS_ACCESS_KEY_ID="AKIAWRONG"), server.bucket(AWS_SECRET_ACCESS_KEY="wrong")
    cases = [
        (no_such, "NoSuchBucket", "create the bucket no-such-bucket"),
        (liar, "SignatureDoesNotMatch", f"the key {server.key} is unknown or has no permission"),
        (stranger, "InvalidAccessKeyId", "the key AKIAWRONG is unknown"),
    ]
    for bucket, reason, hint in cases:
        with pytest.raises(BucketError) as refused:
            bucket.put("x", b"x")
        assert refused.value.code == 65 and reason in refused.value.title and "\n" not in refused.value.title
        assert hint in refused.value.hint
    denied = (403, "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>")
    with answering(denied) as (endpoint, _), pytest.raises(BucketError, match="AccessDenied: Access Denied") as refused:
        Bucket("s3://b", endpoint, REGION, CredentialCache({"AWS_EC2_METADATA_DISABLED": "true"}, REGION)).get("x")
    assert "set secrets.AWS_ACCESS_KEY_ID" in refused.value.hint


def test_credentials_come_from_the_role_of_the_node(tmp_path: Path) -> None:
    role = {"AccessKeyId": "k", "SecretAccessKey": "s", "Token": "t", "Expiration": "2000-01-01T00:00:00Z"}
    with answering((200, json.dumps(role))) as (endpoint, asked):
        environ = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{endpoint}/creds", "AWS_EC2_METADATA_DISABLED": "true"}
        wallet = CredentialCache(environ, REGION)
        found = wallet.current_credentials()
        assert found is not None and found[:3] == ("k", "s", "t")
        wallet.current_credentials()
        assert len(asked) == 2, "these have expired, so it asks again"
    with answering((200, "session"), (200, "role\n"), (200, json.dumps(role))) as (endpoint, asked):
        found = CredentialCache(
            {"AWS_EC2_METADATA_SERVICE_ENDPOINT": endpoint, "HOME": str(tmp_path)}, REGION
        ).current_credentials()
        assert found is not None and found.token == "t"
        assert asked[0] == "PUT /latest/api/token" and asked[2].endswith("/security-credentials/role")
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b%c\n")
    assert CredentialCache({"HOME": str(tmp_path)}, REGION).current_credentials() == Credentials("a", "b%c")
    sts = (
        '<R xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Credentials><AccessKeyId>w</AccessKeyId><SecretAccessKey>x'
        "</SecretAccessKey><SessionToken>y</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></R>"
    )
    (tmp_path / "token").write_text("jwt\n")
    with answering((200, sts)) as (endpoint, _):
        environ = {"AWS_ROLE_ARN": "arn:aws:iam::1:role/r", "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token")}
        found = CredentialCache({**environ, "AWS_ENDPOINT_URL_STS": endpoint}, REGION).current_credentials()
        assert found is not None and found[:3] == ("w", "x", "y")
