"""Whether a webhook comes from the server.

    event = webhooks.verify(body, headers, "whsec_…")                     # Standard Webhooks: the secret of the webhook
    event = webhooks.verify(body, headers, keys=jwk_set, url="https://…") # RFC 9421: the server's public keys

Take the body as the bytes that came, before anything has parsed it. The public keys are at `/.well-known/forgerun/webhook-keys`;
fetch them again when a signature names a key that is not among them. RFC 9421 needs the package `cryptography`: `forgerun[rfc9421]`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

TOLERANCE = 300.0
"""Seconds by which a signature may be old, or the clocks differ."""

Kind = Literal[
    "missing_header",
    "bad_timestamp",
    "expired",
    "bad_signature",
    "bad_digest",
    "not_covered",
    "unknown_key",
    "bad_algorithm",
]

_REQUIRED = ("@method", "@target-uri", "content-type", "content-digest")
_INPUT = re.compile(r'([a-z*][a-z0-9_.*-]*)=(\(((?:\s*"[^"\\]*")*)\s*\)((?:;[a-z0-9_.*-]+=(?:"[^"\\]*"|-?\d+))*))')
_SIGNATURE = re.compile(r"([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/=]*):")
_PARAMETER = re.compile(r';([a-z0-9_.*-]+)=(?:"([^"\\]*)"|(-?\d+))')


class SignatureError(ValueError):
    """A delivery that must not be trusted. `kind` says what is wrong first."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def verify(
    body: bytes,
    headers: Mapping[str, str],
    secret: str | Sequence[str] | None = None,
    *,
    keys: Mapping[str, Any] | None = None,
    url: str | None = None,
    method: str = "POST",
    now: float | None = None,
    tolerance: float = TOLERANCE,
) -> Any:
    """The JSON of a delivery if its signatures hold; otherwise raises `SignatureError`.

    `secret`: that of the webhook, or several while it is being changed. `keys`: the server's JWK set, with `url`, the address of the webhook
    as the server shows it. With both, both signatures must hold.
    """
    if secret is None and keys is None:
        raise ValueError("there is nothing to verify with: give secret, keys, or both")
    found = {name.lower(): value for name, value in headers.items()}
    moment = time.time() if now is None else now
    if secret is not None:
        secrets = [secret] if isinstance(secret, str) else list(secret)
        _verify_standard(body, found, [_secret(text) for text in secrets], moment, tolerance)
    if keys is not None:
        if url is None:
            raise ValueError("the message signature covers the address: give url, as the server shows it")
        _verify_message(body, found, keys, url, method, moment, tolerance)
    try:
        return json.loads(body)
    except ValueError:
        return None


def _secret(text: str) -> bytes:
    try:
        secret = base64.b64decode(_padded(text.strip().removeprefix("whsec_")), validate=True)
    except ValueError:
        secret = b""
    if not 24 <= len(secret) <= 64:
        raise ValueError("a secret is whsec_ and the base64 of 24 to 64 bytes")
    return secret


def _padded(text: str) -> str:
    text = text.rstrip("=")
    return text + "=" * (-len(text) % 4)


def _header(headers: Mapping[str, str], name: str) -> str:
    if name not in headers:
        raise SignatureError("missing_header", f"there is no {name} header")
    return headers[name].strip()


def _check_age(seconds: str | None, now: float, tolerance: float) -> None:
    if seconds is None or not re.fullmatch(r"-?\d{1,15}", seconds):
        raise SignatureError("bad_timestamp", "the signature does not say when it was made")
    if abs(int(now) - int(seconds)) > tolerance:
        raise SignatureError(
            "expired", f"the signature was made {int(now) - int(seconds)} s ago; is one of the clocks wrong?"
        )


def _verify_standard(
    body: bytes, headers: Mapping[str, str], secrets: list[bytes], now: float, tolerance: float
) -> None:
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    id, timestamp, signatures = (_header(headers, name) for name in names)
    _check_age(timestamp, now, tolerance)
    content = f"{id}.{timestamp}.".encode() + body
    tags = [base64.b64encode(hmac.digest(secret, content, "sha256")) for secret in secrets]
    given = [text[3:].encode() for text in signatures.split(" ") if text.startswith("v1,")]
    if not any(hmac.compare_digest(tag, signature) for tag in tags for signature in given):
        raise SignatureError("bad_signature", "no signature was made with this secret over this id, time and body")


def _verify_message(
    body: bytes,
    headers: Mapping[str, str],
    keys: Mapping[str, Any],
    url: str,
    method: str,
    now: float,
    tolerance: float,
) -> None:
    digests = dict(_SIGNATURE.findall(_header(headers, "content-digest")))
    inputs = {match[1]: match for match in _INPUT.finditer(_header(headers, "signature-input"))}
    signatures = dict(_SIGNATURE.findall(_header(headers, "signature")))
    if digests.get("sha-256") != base64.b64encode(hashlib.sha256(body).digest()).decode():
        raise SignatureError("bad_digest", "content-digest is not that of the body; was the body changed or parsed?")
    label = "sig1" if "sig1" in inputs else next(iter(inputs), "sig1")
    if label not in inputs or label not in signatures:
        raise SignatureError("missing_header", f"{label} is not in both signature-input and signature")
    covered = re.findall(r'"([^"]*)"', inputs[label][3])
    parameters = {name: text or number for name, text, number in _PARAMETER.findall(inputs[label][4])}
    missing = [name for name in _REQUIRED if name not in covered]
    if missing:
        raise SignatureError("not_covered", f"{', '.join(missing)} is not signed")
    _check_age(parameters.get("created"), now, tolerance)
    if "expires" in parameters and now > int(parameters["expires"]):
        raise SignatureError("expired", "the signature has expired")
    if parameters.get("alg", "ed25519") != "ed25519":
        raise SignatureError("bad_algorithm", f"the algorithm is {parameters['alg']}, not ed25519")
    key = _key(keys, parameters.get("keyid"))
    lines = [f'"{name}": {_component(name, headers, url, method)}' for name in covered]
    lines.append(f'"@signature-params": {inputs[label][2]}')
    if not _holds(key, signatures[label], "\n".join(lines).encode()):
        raise SignatureError(
            "bad_signature", "the signature was not made with that key over this method, URL and headers"
        )


def _key(keys: Mapping[str, Any], key_id: str | None) -> bytes:
    for key in keys.get("keys", ()):
        if key.get("kid") == key_id and key.get("kty") == "OKP" and key.get("crv") == "Ed25519":
            return base64.urlsafe_b64decode(_padded(key["x"]))
    raise SignatureError("unknown_key", f"the key {key_id} is not among those given; fetch them again")


def _component(name: str, headers: Mapping[str, str], url: str, method: str) -> str:
    parts = urlsplit(url)
    derived = {
        "@method": method,
        "@target-uri": url,
        "@authority": parts.netloc,
        "@scheme": parts.scheme,
        "@path": parts.path,
        "@query": f"?{parts.query}",
    }
    return derived[name] if name in derived else headers.get(name, "").strip()


def _holds(key: bytes, signature: str, message: bytes) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise RuntimeError(
            "message signatures need the package cryptography: pip install 'forgerun[rfc9421]'"
        ) from None
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(base64.b64decode(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True
