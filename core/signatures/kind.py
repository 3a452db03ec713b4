"""Port of a kind of trusted signers, such as SSH keys, and the text of a set of them."""

import base64
import binascii
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar, Generic, Self, TypeVar

from core.errors import Invalid
from core.pem import PemBlock, split_pem
from core.signatures.artifact import ArtifactSignature
from core.signatures.commit import SignedCommit
from core.signatures.signer import VerifiedSigner

_OPTION = re.compile(r"([a-zA-Z-]+)(?:=\"([^\"\\]+)\")?(,|$)")
_CHECKSUM = re.compile("=[A-Za-z0-9+/]{4}")
Key = TypeVar("Key")


class SignerText:
    """The text of a set. Each kind takes its blocks and lines; what remains is of no kind."""

    def __init__(self, text: str) -> None:
        self.blocks, self.lines = split_pem(text)

    def take_blocks(self, kind: str) -> list[PemBlock]:
        """Removes and returns the PEM blocks of a kind."""
        blocks = [block for block in self.blocks if block.kind == kind]
        self.blocks = [block for block in self.blocks if block.kind != kind]
        return blocks

    def take_lines(self, first_word: str = "") -> list[str]:
        """Removes the lines whose first word this is, and returns the rest of each. Empty: all."""
        taken_lines, others = list[str](), list[str]()
        for line in self.lines:
            is_match = first_word in {"", line.split(maxsplit=1)[0]}
            (taken_lines if is_match else others).append(line)
        self.lines = others
        return [line.removeprefix(first_word).strip() for line in taken_lines]


@dataclass(frozen=True, slots=True)
class SignerKind(ABC, Generic[Key]):
    """Trusted signers of one kind: a subclass in a module of its own, and a line in `KINDS`."""

    keys: tuple[Key, ...] = ()
    """Keys or authorities. Empty: nobody is trusted."""
    method: ClassVar[str]
    """Name of the kind, such as `ssh`."""

    @classmethod
    @abstractmethod
    def read(cls, text: SignerText) -> Self:
        """Takes the keys of this kind from a text. Raises Invalid for a malformed one."""

    @abstractmethod
    def describe_keys(self) -> Iterator[str]:
        """Yields the keys or identities that are expected, for people."""

    def merge(self, others: Iterable[Self]) -> Self:
        """Returns the signers together with others of the same kind."""
        return replace(self, keys=(*self.keys, *(key for other in others for key in other.keys)))


class CommitSigners(SignerKind[Key]):
    """Signers of commits. `armor` is the kind of their signatures."""

    armor: ClassVar[str]

    @abstractmethod
    def verify(self, signature: bytes, commit: SignedCommit, now: datetime) -> VerifiedSigner:
        """Verifies the signature of a commit. Raises Invalid with the signer that was found."""


class ArtifactSigners(SignerKind[Key]):
    """Signers of artifacts in registries."""

    @abstractmethod
    def verify(self, content: str, signatures: Sequence[ArtifactSignature]) -> VerifiedSigner:
        """Verifies a signature of the artifact with this content. Raises Invalid."""


def decode_armor(text: str) -> bytes:
    """Returns the bytes within an armor's lines, whose checksum is right, if there is one
    (RFC 4880 section 6). Raises Invalid."""
    lines = [line.strip(" \t\r") for line in text.strip("\r\n").split("\n")]
    if "" in lines:
        lines = lines[lines.index("") + 1 :]
    checksums = [line[1:] for line in lines if _CHECKSUM.fullmatch(line)]
    body = "".join(line for line in lines if not _CHECKSUM.fullmatch(line))
    try:
        data = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("a signature or key is not base64") from None
    if any(base64.b64decode(text) != _crc24(data) for text in checksums):
        raise Invalid("the checksum of a signature or key is wrong: it was changed")
    return data


def _crc24(data: bytes) -> bytes:
    """Returns the checksum of RFC 4880 section 6.1."""
    crc = 0xB704CE
    for byte in data:
        crc ^= byte << 16
        for _ in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= 0x1864CFB
    return crc.to_bytes(3)


def read_options(text: str, supported: Collection[str]) -> dict[str, str]:
    """Parses `NAME="VALUE",…`. Invalid for anything else: an option that is not understood would
    be a restriction that does not hold."""
    options: dict[str, str] = {}
    position = 0
    while position < len(text):
        option = _OPTION.match(text, position)
        name = option[1].lower() if option else ""
        if option is None or (option[3] and option.end() == len(text)):
            raise Invalid(
                f'the options of an allowed signer have the form NAME="VALUE": {text[:60]!r}'
            )
        if name not in supported:
            raise Invalid(f"the option {name} of an allowed signer is not supported")
        if option[2] is None or name in options:
            raise Invalid(f'an allowed signer has the option {name} once, as {name}="VALUE"')
        options[name] = option[2]
        position = option.end()
    return options
