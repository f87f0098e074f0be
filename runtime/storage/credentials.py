"""Find credentials for an object store in the same places as AWS's own tools do.

In:   a node's environment variables, and the files and services that they name.
Out:  Credentials, or None if there are none; requests are then not signed.
Order: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; a web identity (AWS_WEB_IDENTITY_TOKEN_FILE, as on EKS); the
      shared file (~/.aws/credentials); a container's endpoint (AWS_CONTAINER_CREDENTIALS_*); the instance's role
      (IMDSv2).
Source: "Standardized credential providers", AWS SDKs and Tools Reference Guide.
"""

from __future__ import annotations

import configparser
import datetime
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

EARLY_S = 300.0  # credentials are renewed this long before they expire
ANSWER_S = 5.0
INSTANCE_ANSWER_S = 1.0  # most machines do not have this service
INSTANCE = "http://169.254.169.254"
CONTAINER = "http://169.254.170.2"


class Credentials(NamedTuple):
    """An access key. expires: in seconds since the epoch, or inf if it never expires."""

    key: str
    secret: str
    token: str = ""
    expires: float = float("inf")


class CredentialCache:
    """Caches credentials and renews them shortly before they expire. A source that fails is skipped."""

    def __init__(self, environ: Mapping[str, str], region: str) -> None:
        self._environ, self._region = environ, region
        self._found: Credentials | None = None
        self._asked = False

    def current_credentials(self) -> Credentials | None:
        if not self._asked or (self._found and time.time() > self._found.expires - EARLY_S):
            self._found = next(_find_credentials(self._environ, self._region), None)
            self._asked = True
        return self._found

    def replace_expired(self) -> None:
        """Replace credentials that were rejected as expired."""
        self._asked = False


def _find_credentials(environ: Mapping[str, str], region: str) -> Iterator[Credentials]:
    if environ.get("AWS_ACCESS_KEY_ID") and environ.get("AWS_SECRET_ACCESS_KEY"):
        token = environ.get("AWS_SESSION_TOKEN", "")
        yield Credentials(environ["AWS_ACCESS_KEY_ID"], environ["AWS_SECRET_ACCESS_KEY"], token)
    for source in (_web_identity_credentials, _shared_file_credentials, _container_credentials, _instance_credentials):
        try:
            credentials = source(environ, region)
        except (OSError, ValueError, KeyError, ElementTree.ParseError, configparser.Error):
            continue  # the next source may have credentials; if none does, the store reports what is missing
        if credentials:
            yield credentials


def _web_identity_credentials(environ: Mapping[str, str], region: str) -> Credentials | None:
    role, file = environ.get("AWS_ROLE_ARN"), environ.get("AWS_WEB_IDENTITY_TOKEN_FILE")
    if not role or not file:
        return None
    query = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": role,
        "RoleSessionName": environ.get("AWS_ROLE_SESSION_NAME", "jobc"),
        "WebIdentityToken": Path(file).read_text(encoding="utf-8").strip(),
    }
    service = environ.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.amazonaws.com"
    tree = ElementTree.fromstring(_request(f"{service}/", data=urllib.parse.urlencode(query).encode()))
    fields = {element.tag.rpartition("}")[2]: element.text or "" for element in tree.iter()}
    return _parse_credentials({**fields, "Token": fields["SessionToken"]})


def _shared_file_credentials(environ: Mapping[str, str], region: str) -> Credentials | None:
    home = Path(environ.get("HOME") or "/nonexistent")
    file = Path(environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws" / "credentials")
    parser = configparser.RawConfigParser()
    parser.read(file, encoding="utf-8")
    profile = environ.get("AWS_PROFILE") or "default"
    if not parser.has_option(profile, "aws_access_key_id"):
        return None
    section = parser[profile]
    token = section.get("aws_session_token", "")
    return Credentials(section["aws_access_key_id"], section["aws_secret_access_key"], token)


def _container_credentials(environ: Mapping[str, str], region: str) -> Credentials | None:
    url = environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if path := environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        url = CONTAINER + path
    if not url:
        return None
    token = environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
    if file := environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        token = Path(file).read_text(encoding="utf-8").strip()
    return _parse_credentials(json.loads(_request(url, {"Authorization": token} if token else {})))


def _instance_credentials(environ: Mapping[str, str], region: str) -> Credentials | None:
    if environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return None
    service = environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or INSTANCE
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
    session = _request(f"{service}/latest/api/token", lifetime, method="PUT", answer_s=INSTANCE_ANSWER_S).decode()
    headers = {"X-aws-ec2-metadata-token": session}
    roles = f"{service}/latest/meta-data/iam/security-credentials/"
    role = _request(roles, headers).decode().splitlines()[0]
    return _parse_credentials(json.loads(_request(roles + role, headers)))


def _parse_credentials(fields: Mapping[str, str]) -> Credentials:
    expires = float("inf")
    if text := fields.get("Expiration"):
        expires = datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    return Credentials(fields["AccessKeyId"], fields["SecretAccessKey"], fields.get("Token", ""), expires)


def _request(
    url: str,
    headers: Mapping[str, str] | None = None,
    data: bytes | None = None,
    method: str | None = None,
    answer_s: float = ANSWER_S,
) -> bytes:
    """Return the response body. Uses no proxy without https, because such services are local. Raises OSError."""
    request = urllib.request.Request(url, data=data, headers=dict(headers or {}), method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({} if url.startswith("http:") else None))
    with opener.open(request, timeout=answer_s) as answer:
        body: bytes = answer.read()
    return body
