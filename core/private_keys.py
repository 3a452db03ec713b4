"""Private keys of SSH users and of GitHub Apps: OpenSSH's format, or PEM (PKCS #1 and #8)."""

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization.ssh import SSHPrivateKeyTypes

from core.errors import Invalid

PrivateKey = PrivateKeyTypes | SSHPrivateKeyTypes


class KeyEncrypted(Invalid):
    """Raised for a key that needs a passphrase."""


def load_private_key(text: str, passphrase: str | None = None) -> PrivateKey:
    """Parses a private key. With a passphrase, derives its key, which can take a second.

    KeyEncrypted: it needs a passphrase. Invalid: it is no private key, of an unknown algorithm, or
    the passphrase is wrong.
    """
    encoded = text.strip().encode() + b"\n"
    is_openssh = b"BEGIN OPENSSH" in encoded
    load = serialization.load_ssh_private_key if is_openssh else serialization.load_pem_private_key
    password = passphrase.encode() if passphrase else None
    try:
        return load(encoded, password)
    except UnsupportedAlgorithm as error:
        raise Invalid(f"cannot be read: {error}") from None
    except TypeError:
        if password is None:
            raise KeyEncrypted("is encrypted: give its passphrase") from None
        raise Invalid("is not encrypted: leave out the passphrase") from None
    except ValueError:
        hint = "expected -----BEGIN … PRIVATE KEY-----" if password is None else "wrong passphrase?"
        raise Invalid(f"cannot be read: {hint}") from None


def check_private_key(text: str, *, has_passphrase: bool) -> None:
    """Raises Invalid for a text that is no private key, or that lacks its passphrase.

    Derives nothing from a passphrase: the sender of the key determines the cost of that.
    """
    try:
        load_private_key(text)
    except KeyEncrypted:
        if not has_passphrase:
            raise


def check_app_key(text: str) -> None:
    """Raises Invalid for a text that cannot sign tokens of a GitHub App (RS256, RFC 7518)."""
    try:
        is_rsa = isinstance(load_private_key(text), RSAPrivateKey)
    except Invalid:
        is_rsa = False
    if not is_rsa:
        raise Invalid("is no RSA key in PEM without a passphrase: download it from GitHub")
