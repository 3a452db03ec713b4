"""Signed statements that freeze and thaw clusters, by a key that is kept offline.

A statement is one line of text, so that it passes through an API, a ConfigMap or a file unchanged:
`towline-freeze-1.` with canonical JSON and its Ed25519 signature (RFC 8032), each in URL-safe
base64. The signature covers a prefix unique to this use of the key, followed by the JSON.
"""

import base64
import binascii
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from core.errors import Invalid
from core.json_object import JsonObject
from core.spec.statements.attestation import key_id

MAX_FREEZE_TEXT = 4096
EVERY_CLUSTER = "*"
_NAME = "towline-freeze-1"
_PREFIX = b"towline freeze 1\n"
_MAX_CLUSTERS, _MAX_REASON, _MAX_NUMBER = 100, 500, 1 << 53


class FreezeAction(StrEnum):
    """Effect of a statement."""

    FREEZE = "freeze"
    THAW = "thaw"


@dataclass(frozen=True, slots=True)
class FreezeStatement:
    """An order of the holder of the freeze key."""

    action: FreezeAction
    clusters: tuple[str, ...]
    """Names of the clusters, as their agents know them; `*` means all."""
    serial: int
    """An agent obeys only statements with a higher serial than the last one."""
    issued_at: int
    """Unix seconds."""
    expires_at: int = 0
    """Unix seconds at which a freeze ends, or a thaw is no longer accepted. 0: never."""
    reason: str = ""

    def applies_to(self, cluster: str) -> bool:
        """Returns whether the statement is for this cluster."""
        return EVERY_CLUSTER in self.clusters or (cluster != "" and cluster in self.clusters)

    def is_expired(self, now: datetime) -> bool:
        """Returns whether the statement has expired."""
        return self.expires_at != 0 and now.timestamp() >= self.expires_at

    @property
    def since(self) -> str:
        """Time of issue, for people."""
        return datetime.fromtimestamp(self.issued_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

    def sign(self, key: Ed25519PrivateKey) -> str:
        """Returns the signed statement as one line. Raises Invalid if it is too long."""
        data = orjson.dumps(asdict(_validate(self)), option=orjson.OPT_SORT_KEYS)
        text = f"{_NAME}.{_encode_base64(data)}.{_encode_base64(key.sign(_PREFIX + data))}"
        if len(text) > MAX_FREEZE_TEXT:
            raise Invalid(f"the statement exceeds {MAX_FREEZE_TEXT} characters")
        return text


_FIELDS = {field.name for field in fields(FreezeStatement)}
_NOT_A_STATEMENT = "not a freeze statement; make one with `towline freeze` or `towline thaw`"


class FreezeKeys:
    """The freeze keys that the cluster's operator pinned."""

    def __init__(self, keys: Iterable[Ed25519PublicKey] = ()) -> None:
        self._keys = {key_id(key): key for key in keys}

    def __bool__(self) -> bool:
        return bool(self._keys)

    def verify(self, text: str) -> FreezeStatement:
        """Verifies a signed statement. Raises Invalid, naming the expected keys."""
        data, signature = _split_statement(text)
        for key in self._keys.values():
            try:
                key.verify(signature, _PREFIX + data)
            except InvalidSignature:
                continue
            return _decode(data)
        raise Invalid(
            "the statement is not signed by a freeze key of this cluster: "
            f"{', '.join(self._keys) or 'it has none'}"
        )


def read_unverified(text: str) -> FreezeStatement:
    """Reads a statement without a check of its signature. Raises Invalid."""
    return _decode(_split_statement(text)[0])


def _split_statement(text: str) -> tuple[bytes, bytes]:
    name, _, payload_and_signature = text.strip().partition(".")
    payload, _, signature = payload_and_signature.partition(".")
    if name != _NAME or len(text) > MAX_FREEZE_TEXT:
        raise Invalid(_NOT_A_STATEMENT)
    try:
        return _decode_base64(payload), _decode_base64(signature)
    except (binascii.Error, ValueError):
        raise Invalid(_NOT_A_STATEMENT) from None


def _decode(data: bytes) -> FreezeStatement:
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise Invalid(_NOT_A_STATEMENT) from None
    if not isinstance(raw, dict) or raw.keys() != _FIELDS:
        raise Invalid("the freeze statement has a form that this version does not know")
    return _validate(_from_json(raw))


def _from_json(raw: JsonObject) -> FreezeStatement:
    clusters = raw["clusters"]
    if raw["action"] not in set(FreezeAction) or not isinstance(clusters, list):
        raise Invalid(_NOT_A_STATEMENT)
    numbers = [raw[name] for name in ("serial", "issued_at", "expires_at")]
    texts = [*clusters, raw["reason"]]
    if not all(type(number) is int for number in numbers):
        raise Invalid(_NOT_A_STATEMENT)
    if not all(isinstance(text, str) for text in texts):
        raise Invalid(_NOT_A_STATEMENT)
    return FreezeStatement(
        FreezeAction(raw["action"]), tuple(clusters), *numbers, reason=str(raw["reason"])
    )


def _validate(statement: FreezeStatement) -> FreezeStatement:
    numbers = (statement.serial, statement.issued_at, statement.expires_at)
    if not 1 <= len(statement.clusters) <= _MAX_CLUSTERS or not all(statement.clusters):
        raise Invalid(f"must name 1 to {_MAX_CLUSTERS} clusters", field="clusters")
    if not all(0 <= number < _MAX_NUMBER for number in numbers) or not statement.serial:
        raise Invalid("must be a positive number", field="serial")
    if len(statement.reason) > _MAX_REASON or not (statement.reason or " ").isprintable():
        raise Invalid(f"must be one line of at most {_MAX_REASON} characters", field="reason")
    return statement


def _encode_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode_base64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
