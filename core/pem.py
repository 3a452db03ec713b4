"""PEM (RFC 7468): text of public keys, and the blocks of a text."""

import re
from dataclasses import dataclass

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from core.errors import Invalid

_BEGIN = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----")


@dataclass(frozen=True, slots=True)
class PemBlock:
    """A block; `body` has the lines between its first and last."""

    kind: str
    body: str

    @property
    def text(self) -> str:
        """The block with its first and last line."""
        return f"-----BEGIN {self.kind}-----\n{self.body}\n-----END {self.kind}-----\n"


def public_key_pem(key: Ed25519PublicKey) -> bytes:
    """Encodes a public key (SubjectPublicKeyInfo)."""
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def split_pem(text: str) -> tuple[list[PemBlock], list[str]]:
    """Returns the blocks of a text, and its other lines except comments and empty ones.

    Invalid: a block has no end.
    """
    blocks, others = list[PemBlock](), list[str]()
    kind, body = "", list[str]()
    for line in map(str.strip, text.splitlines()):
        if kind and line == f"-----END {kind}-----":
            blocks.append(PemBlock(kind, "\n".join(body)))
            kind, body = "", []
        elif kind:
            body.append(line)
        elif begin := _BEGIN.fullmatch(line):
            kind = begin[1]
        elif line and line[0] != "#":
            others.append(line)
    if kind:
        raise Invalid(f"the block {kind[:40]} has no end")
    return blocks, others
