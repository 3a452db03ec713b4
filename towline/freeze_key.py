"""Private freeze keys: their files, and the statements that they sign."""

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.errors import Invalid
from core.pem import public_key_pem
from core.spec.statements.freeze import FreezeAction, FreezeStatement

_OWNER_ONLY = 0o600


def create(file: Path) -> str:
    """Writes a new private key, and returns the public key as PEM."""
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    with os.fdopen(handle, "wb") as output:
        output.write(pem)
    return public_key_pem(key.public_key()).decode()


def sign(
    file: Path,
    action: str,
    clusters: Sequence[str],
    now: datetime,
    *,
    reason: str = "",
    lifetime: timedelta | None = None,
    serial: int | None = None,
) -> str:
    """Returns a signed statement. Raises Invalid if the key or a value cannot be used."""
    statement = FreezeStatement(
        FreezeAction(action),
        tuple(clusters),
        serial if serial is not None else int(now.timestamp() * 1000),
        int(now.timestamp()),
        int((now + lifetime).timestamp()) if lifetime is not None else 0,
        reason,
    )
    return statement.sign(_read_key(file))


def _read_key(file: Path) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(file.read_bytes(), password=None)
    except (ValueError, TypeError):
        raise Invalid(f"{file} is not a private key of `towline freeze-key create`") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise Invalid(f"{file} is not an Ed25519 key")
    return key
