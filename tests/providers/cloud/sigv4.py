"""Signature Version 4 as AWS describes it, written for the tests: what a server would compute from a request.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import hashlib
import hmac
import re
from urllib.parse import quote, unquote, urlsplit

from providers.server import Request

FORM = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<day>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request, "
    r"SignedHeaders=(?P<names>[a-z0-9;-]+), Signature=(?P<signature>[0-9a-f]{64})"
)


def signed_by(request: Request, secret: str, method: str = "POST") -> dict[str, str]:
    """The parts of a request's signature. Fails when the signature is not right for the request and the secret."""
    found = FORM.fullmatch(request.headers["authorization"])
    assert found is not None, "no signature"
    names = found["names"].split(";")
    assert names == sorted(names)
    assert {"host", "x-amz-date"} <= set(names)
    parts = urlsplit(request.path)
    canonical = "\n".join(
        [
            method,
            quote(quote(unquote(parts.path), safe="/-_.~"), safe="/-_.~"),
            "&".join(sorted(parts.query.split("&"))) if parts.query else "",
            *(f"{name}:{' '.join(request.headers[name].split())}" for name in names),
            "",
            found["names"],
            hashlib.sha256(request.body).hexdigest(),
        ]
    )
    moment = request.headers["x-amz-date"]
    assert moment.startswith(found["day"])
    scope = f"{found['day']}/{found['region']}/{found['service']}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for word in (found["day"], found["region"], found["service"], "aws4_request"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    assert hmac.new(key, text.encode(), hashlib.sha256).hexdigest() == found["signature"], "a wrong signature"
    return found.groupdict()
