"""Sign an S3 request with AWS Signature Version 4, in header fields.

Source: "Authenticating Requests (AWS Signature Version 4)", Amazon S3 API Reference. S3 is
the only service for which the path is encoded only once.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from urllib.parse import quote

from .credentials import Credentials

ALGORITHM = "AWS4-HMAC-SHA256"
UNRESERVED = "-_.~"


def percent_encode_path(path: str) -> str:
    """Percent-encode every byte of a path except A-Z a-z 0-9 - _ . ~ and the slash."""
    return quote(path, safe=UNRESERVED + "/")


def encode_query(query: Mapping[str, str]) -> str:
    """Encode the query, sorted by name as the signature requires."""
    return "&".join(f"{quote(k, safe=UNRESERVED)}={quote(v, safe=UNRESERVED)}" for k, v in sorted(query.items()))


def sign_headers(
    method: str,
    host: str,
    path: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    body_sha256: str,
    credentials: Credentials | None,
    region: str,
    now: float | None = None,
) -> dict[str, str]:
    """Return `headers` with the fields that sign the request.

    path:        not encoded yet.
    body_sha256: 64 hexadecimal digits.
    credentials: None for an unsigned request.
    now:         seconds since the epoch.
    """
    moment = time.gmtime(time.time() if now is None else now)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", moment)
    fields = {**headers, "Host": host, "x-amz-content-sha256": body_sha256, "x-amz-date": stamp}
    if credentials is None:
        return fields
    if credentials.token:
        fields["x-amz-security-token"] = credentials.token
    lower = {name.lower(): " ".join(value.split()) for name, value in fields.items()}
    names = ";".join(sorted(lower))
    canonical = [
        method,
        percent_encode_path(path),
        encode_query(query),
        *(f"{name}:{lower[name]}" for name in sorted(lower)),
        "",
        names,
        body_sha256,
    ]
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    key = f"AWS4{credentials.secret}".encode()
    for word in (stamp[:8], region, "s3", "aws4_request"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, f"{ALGORITHM}\n{stamp}\n{scope}\n{digest}".encode(), hashlib.sha256).hexdigest()
    fields["Authorization"] = (
        f"{ALGORITHM} Credential={credentials.key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return fields
