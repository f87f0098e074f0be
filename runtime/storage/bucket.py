"""S3 client in pure Python: put, get, list and delete whole objects. Objects are never renamed or appended to.

In:  a URL s3://BUCKET/PREFIX. Stores other than Amazon's (MinIO, Ceph) also need an endpoint; the bucket is appended
     to its path.
Out: on failure, BucketError with one line, a hint and an exit code: 65 if a restart cannot help, or 69 if the store is
     unavailable.
"""

from __future__ import annotations

import email.utils
import hashlib
import http.client
import os
import random
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

from .. import exit_codes
from ..system.failure import Failure
from .credentials import CredentialCache
from .signature import encode_query, percent_encode_path, sign_headers

PART_BYTES = 16 * 1024 * 1024  # in a multipart upload; S3 accepts up to 10,000 parts of 5 MiB to 5 GiB
MOST_PARTS = 9000
AT_ONCE = 8  # parts transferred simultaneously
LARGEST_ANSWER = 64 * 1024 * 1024  # size limit of a list, a small object or a part; larger bodies are not read
PAGE = 1000  # objects per response to a list request, which is S3's maximum
ANSWER_S = 60.0
TRIES, FIRST_PAUSE_S = 7, 0.4  # the pause doubles each time: about half a minute in total
BUSY = (429, 500, 502, 503, 504)
RENEWABLE = ("ExpiredToken", "TokenRefreshRequired", "ExpiredTokenException")

if TYPE_CHECKING:
    Pause = Callable[[float], None]


class BucketError(Failure):
    """Raised if a request fails. Its exit code depends on whether a retry may help."""


class ListedObject(NamedTuple):
    """An object in a list. age_s: seconds since it was written, on the store's clock."""

    key: str
    size: int
    age_s: float


class HttpResponse(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Bucket:
    """The objects under the URL s3://BUCKET/PREFIX.

    endpoint: the store's endpoint, or "" for Amazon's.
    pause: time.sleep, replaced only in tests.
    """

    def __init__(
        self, url: str, endpoint: str, region: str, wallet: CredentialCache, pause: Pause = time.sleep
    ) -> None:
        self.url, self.region = url.rstrip("/"), region
        self._wallet, self._pause = wallet, pause
        self.name, _, prefix = url.removeprefix("s3://").partition("/")
        self._prefix = prefix.rstrip("/") + "/" if prefix.strip("/") else ""
        in_host = not endpoint and "." not in self.name  # the certificate does not cover names with dots
        parts = urlsplit(endpoint or f"https://{self.name + '.' if in_host else ''}s3.{region}.amazonaws.com")
        self._secure, self._host = parts.scheme != "http", parts.netloc
        self._base = parts.path.rstrip("/") + ("" if in_host else f"/{self.name}")

    # ---- objects

    def put(self, key: str, content: bytes, only_new: bool = False) -> bool:
        """Write an object. Return False if only_new is set and the object exists.

        A store without If-None-Match (an old Ceph or MinIO) rejects the request or overwrites the object. Callers
        that need certainty read the object again.
        """
        headers = {"If-None-Match": "*"} if only_new else {}
        answer = self._request("PUT", key, body=content, headers=headers, accepted_statuses=(200, 412, 409, 501))
        if answer.status == 501:
            if self.get(key) is not None:
                return False
            answer = self._request("PUT", key, body=content)
        return answer.status == 200

    def get(self, key: str) -> bytes | None:
        """Return an object, or None if it does not exist."""
        answer = self._request("GET", key, accepted_statuses=(200, 404))
        return answer.body if answer.status == 200 else None

    def put_file(self, key: str, path: Path) -> None:
        """Upload a file, in parts if it is large. Raises OSError if it cannot be read, or shrinks during the upload."""
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size <= PART_BYTES:
                self.put(key, _read_exactly(file.fileno(), 0, size))
            else:
                self._put_parts(key, file.fileno(), size)

    def _put_parts(self, key: str, file: int, size: int) -> None:
        length = max(PART_BYTES, -(-size // MOST_PARTS))
        started = self._request("POST", key, {"uploads": ""})
        upload = _element_text(ElementTree.fromstring(started.body), "UploadId")

        def put_part(number: int) -> str:
            start = (number - 1) * length
            content = _read_exactly(file, start, min(length, size - start))
            answer = self._request("PUT", key, {"partNumber": str(number), "uploadId": upload}, content)
            return f"<Part><PartNumber>{number}</PartNumber><ETag>{answer.headers['etag']}</ETag></Part>"

        try:
            with ThreadPoolExecutor(AT_ONCE) as threads:
                parts = "".join(threads.map(put_part, range(1, -(-size // length) + 1)))
            body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
            done = self._request("POST", key, {"uploadId": upload}, body)
            if b"<Error>" in done.body:  # S3 returns 200 immediately and may fail later
                raise self._error_for_response("POST", key, done)
        except (OSError, BucketError):
            self._request(
                "DELETE", key, {"uploadId": upload}, accepted_statuses=(200, 204, 404)
            )  # parts left behind would cost money
            raise

    def get_file(self, key: str, path: Path, size: int) -> None:
        """Download an object of `size` bytes into a new file. Raises OSError if the file cannot be written."""
        with open(path, "wb") as file:

            def get_part(start: int) -> None:
                end = min(start + PART_BYTES, size) - 1
                answer = self._request(
                    "GET", key, headers={"Range": f"bytes={start}-{end}"}, accepted_statuses=(200, 206), max_bytes=size
                )
                content = answer.body if answer.status == 206 else answer.body[start : end + 1]
                if len(content) != end + 1 - start:
                    raise BucketError(f"{self.url}/{key} changed while it was being read", "", exit_codes.PEER_LOST)
                os.pwrite(file.fileno(), content, start)

            with ThreadPoolExecutor(AT_ONCE) as threads:
                list(threads.map(get_part, range(0, size, PART_BYTES)))

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects in this order. Missing objects are ignored."""
        for key in keys:
            self._request("DELETE", key, accepted_statuses=(200, 204, 404))

    def list(self, prefix: str) -> Iterator[ListedObject]:
        """Yield all objects whose key begins with `prefix`, ordered by key."""
        page = {"list-type": "2", "max-keys": str(PAGE), "encoding-type": "url"}
        query = {**page, "prefix": self._prefix + prefix}
        while True:
            answer = self._request("GET", None, query)
            now = email.utils.parsedate_to_datetime(answer.headers["date"]).timestamp()
            tree = ElementTree.fromstring(answer.body)
            for element in tree.findall("{*}Contents"):
                written = datetime.fromisoformat(
                    _element_text(element, "LastModified").replace("Z", "+00:00")
                ).timestamp()
                key = unquote(_element_text(element, "Key")).removeprefix(self._prefix)
                yield ListedObject(key, int(_element_text(element, "Size")), max(0.0, now - written))
            if _element_text(tree, "IsTruncated") != "true":
                return
            query = {**query, "continuation-token": _element_text(tree, "NextContinuationToken")}

    # ---- one request

    def _request(
        self,
        method: str,
        key: str | None,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        accepted_statuses: tuple[int, ...] = (200, 204),
        max_bytes: int = 0,
    ) -> HttpResponse:
        """Send a request, retry while the store is unavailable or busy, and return the response.

        accepted_statuses: any other status raises BucketError.
        max_bytes: limit on the body, if higher than LARGEST_ANSWER
        """
        path = self._base + "/" + (self._prefix + key if key is not None else "")
        failure = ""
        for attempt in range(TRIES):
            if attempt:
                self._pause(FIRST_PAUSE_S * 2 ** (attempt - 1) * (0.5 + random.random()))
            try:
                answer = self._request_once(
                    method, path, query or {}, body, headers or {}, max(max_bytes, LARGEST_ANSWER)
                )
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, ssl.SSLCertVerificationError):
                    title, hint = f"{self._host}: {error.verify_message}", "set SSL_CERT_FILE to your own certificates"
                    raise BucketError(title, hint, exit_codes.DATA_BROKEN) from error
                failure = f"{type(error).__name__}: {error}"
                continue
            if answer.status in accepted_statuses and not (
                answer.status == 404 and _error_details(answer)[0] == "NoSuchBucket"
            ):
                return answer
            reason = _error_details(answer)[0]
            if reason in RENEWABLE and not attempt:
                self._wallet.replace_expired()
            elif answer.status not in BUSY and reason not in ("SlowDown", "RequestTimeout", "OperationAborted"):
                raise self._error_for_response(method, path, answer)
            failure = f"HTTP {answer.status} {reason}"
        title = f"the object store at {self._host} does not respond: {failure} ({TRIES} attempts)"
        raise BucketError(title, "check storage.endpoint and the node's network", exit_codes.PEER_LOST)

    def _request_once(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, headers: Mapping[str, str], max_bytes: int
    ) -> HttpResponse:
        digest = hashlib.sha256(body).hexdigest()
        fields = sign_headers(
            method, self._host, path, query, headers, digest, self._wallet.current_credentials(), self.region
        )
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, timeout=ANSWER_S)
        try:
            target = percent_encode_path(path) + (f"?{encode_query(query)}" if query else "")
            connection.request(method, target, body, fields)
            answer = connection.getresponse()
            received = {name.lower(): value for name, value in answer.getheaders()}
            content = answer.read(max_bytes + 1)
            if len(content) > max_bytes:
                title = f"{self.url}: the response to {method} {path} is larger than {max_bytes >> 20} MiB"
                raise BucketError(title, "jobc did not write this object: remove it", exit_codes.DATA_BROKEN)
            return HttpResponse(answer.status, received, content)
        finally:
            connection.close()

    def _error_for_response(self, method: str, path: str, answer: HttpResponse) -> BucketError:
        reason, message = _error_details(answer)
        words = message or http.client.responses.get(answer.status, "")
        title = f"{self.url}: {reason or f'HTTP {answer.status}'}: {words}"
        hint = f"{method} {path} was refused"
        if reason == "NoSuchBucket":
            hint = f"create the bucket {self.name}, or set another: storage.root=s3://BUCKET/PREFIX"
        elif reason == "RequestTimeTooSkewed":
            hint = "the clock of this node is wrong"
        elif reason in ("AuthorizationHeaderMalformed", "PermanentRedirect"):
            hint = f"storage.region={answer.headers.get('x-amz-bucket-region', 'the region of the bucket')}"
        elif answer.status in (401, 403):
            hint = "set secrets.AWS_ACCESS_KEY_ID and secrets.AWS_SECRET_ACCESS_KEY, or attach a role to the node"
            if credentials := self._wallet.current_credentials():
                hint = f"the key {credentials.key} is unknown or has no permission for {method} {path}"
        return BucketError(title, hint, exit_codes.DATA_BROKEN)


def _error_details(answer: HttpResponse) -> tuple[str, str]:
    """Return the code and the message of an error response. Both are "" if it cannot be parsed."""
    try:
        tree = ElementTree.fromstring(answer.body)
    except ElementTree.ParseError:
        return "", ""
    return _element_text(tree, "Code"), _element_text(tree, "Message")


def _element_text(tree: ElementTree.Element, tag: str) -> str:
    """Return the text of the first element with this tag in any namespace, or ""."""
    return tree.findtext(f".//{{*}}{tag}", "")


def _read_exactly(file: int, start: int, length: int) -> bytes:
    content = b""
    while len(content) < length:
        piece = os.pread(file, length - len(content), start + len(content))
        if not piece:
            raise OSError("the file was truncated while it was being read")
        content += piece
    return content
