"""A commit object of Git and its signature (gitformat-signature(5))."""

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from core.errors import Invalid

MAX_COMMIT_BYTES = 65536
_HEADERS = {40: b"gpgsig", 64: b"gpgsig-sha256"}
_ARMOR = re.compile(
    r"-----BEGIN ([A-Z ]+)-----\r?\n(.+?)\n?-----END \1-----\s*", re.DOTALL | re.ASCII
)
_TIME = re.compile(rb".*> (\d{1,12}) [+-]\d{4}")
_MAX_TIME = 253402300799
"""The end of the year 9999: Git permits later ones."""


@dataclass(frozen=True, slots=True)
class SignedCommit:
    """A commit whose content matches its id. `armor` is the kind of its signature."""

    id: str
    tree: str
    committed_at: datetime
    payload: bytes
    armor: str = ""
    signature: str = ""

    @property
    def is_signed(self) -> bool:
        """Reports whether the commit has a signature, valid or not."""
        return bool(self.armor)


def read_commit(id: str, data: bytes) -> SignedCommit:
    """Reads the object of a commit. Raises Invalid if it is another commit, or malformed."""
    if len(data) > MAX_COMMIT_BYTES:
        raise Invalid(
            f"commit {id[:12]} has {len(data):,} bytes; signatures of commits up to "
            f"{MAX_COMMIT_BYTES:,} bytes can be checked"
        )
    if object_id(data, len(id)) != id:
        raise Invalid(f"the object is not the commit {id[:12]}")
    head, _, _ = data.partition(b"\n\n")
    lines = head.split(b"\n")
    committer = next((line for line in lines if line.startswith(b"committer ")), b"")
    time_match = _TIME.fullmatch(committer)
    if not lines[0].startswith(b"tree ") or time_match is None:
        raise Invalid(f"commit {id[:12]} is malformed")
    seconds = int(time_match[1])
    if seconds > _MAX_TIME:
        raise Invalid(f"commit {id[:12]} is of the time {seconds}, which is past the year 9999")
    payload, signature = _split_signature(data, _HEADERS[len(id)])
    tree = lines[0][5:].decode("ascii", "replace")
    committed_at = datetime.fromtimestamp(seconds, UTC)
    if not signature:
        return SignedCommit(id, tree, committed_at, payload)
    match = _ARMOR.fullmatch(signature.decode("ascii", "replace"))
    if match is None:
        raise Invalid(f"commit {id[:12]} has a malformed signature")
    return SignedCommit(id, tree, committed_at, payload, match[1], match[2])


def object_id(data: bytes, digits: int = 40) -> str:
    """The id of a commit: SHA-1, or SHA-256 with 64 digits."""
    content = b"commit %d\0" % len(data) + data
    if digits == 64:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def _split_signature(data: bytes, header: bytes) -> tuple[bytes, bytes]:
    """Splits a commit into the signed content and the signature, as Git does. Invalid: two."""
    payload, signature, in_other_signature = [], [], False
    head, blank, message = data.partition(b"\n\n")
    in_signature, count = False, 0
    for line in head.split(b"\n"):
        if line.startswith(b" ") and (in_signature or in_other_signature):
            if in_signature:
                signature.append(line[1:])
            continue
        in_signature, in_other_signature = line.startswith(header + b" "), False
        if in_signature:
            count += 1
            signature.append(line[len(header) + 1 :])
        elif line.startswith(b"gpgsig"):
            in_other_signature = True
        else:
            payload.append(line)
    if count > 1:
        raise Invalid("the commit has more than one signature")
    return b"\n".join(payload) + blank + message, b"\n".join(signature)
