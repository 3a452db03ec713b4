"""Proofs that an entry is in a transparency log: a path to the root of its tree (RFC 9162 section
2.1.3), and the log's signed checkpoint of that root (C2SP: tlog-checkpoint, signed-note).
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.errors import Invalid
from core.json_object import JsonMapping
from core.signatures.cosign_key import CosignKey

_MAX_HASHES = 64
_HINT_BYTES = 4
_SIGNATURE = "— "


@dataclass(frozen=True, slots=True)
class InclusionProof:
    """The place of an entry in a tree of `size` entries, and the checkpoint of the tree."""

    index: int
    size: int
    root: bytes
    hashes: tuple[bytes, ...]
    checkpoint: str

    @classmethod
    def read(cls, raw: JsonMapping) -> "InclusionProof":
        """Reads the proof of a Sigstore bundle. ValueError, LookupError, TypeError: malformed."""
        hashes = tuple(_decode_base64(text) for text in raw["hashes"])
        root, index, size = (
            _decode_base64(raw["rootHash"]),
            int(raw["logIndex"]),
            int(raw["treeSize"]),
        )
        if len(hashes) > _MAX_HASHES or not 0 <= index < size:
            raise ValueError("no place in the tree")
        return cls(index, size, root, hashes, str(raw["checkpoint"]["envelope"]))

    def check(self, body: bytes, log: CosignKey) -> None:
        """Raises Invalid unless the entry is in the tree, and the log has signed its root."""
        if compute_root(body, self.index, self.size, self.hashes) != self.root:
            raise Invalid("the transparency log does not prove that it contains the entry")
        text, _, signatures = self.checkpoint.partition("\n\n")
        _, size, root, *_ = [*text.split("\n"), "", "", ""]
        if (size, root) != (str(self.size), base64.b64encode(self.root).decode()):
            raise Invalid("the checkpoint of the transparency log is of another tree")
        signed = f"{text}\n".encode()
        if not any(
            log.is_signature_of(each, signed)
            for each in _log_signatures(signatures.split("\n"), log)
        ):
            raise Invalid("the checkpoint of the transparency log has no signature of its key")


def compute_root(body: bytes, index: int, size: int, hashes: Sequence[bytes]) -> bytes:
    """Returns the root that a path from an entry leads to; empty: the path has another length."""
    node, last, digest = index, size - 1, hashlib.sha256(b"\0" + body).digest()
    for sibling in hashes:
        if last == 0:
            return b""
        if node & 1 or node == last:
            digest = _parent_hash(sibling, digest)
            while node and not node & 1:
                node, last = node >> 1, last >> 1
        else:
            digest = _parent_hash(digest, sibling)
        node, last = node >> 1, last >> 1
    return digest if last == 0 else b""


def _parent_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def _log_signatures(lines: Iterable[str], log: CosignKey) -> Iterable[bytes]:
    """Yields the signatures of a note whose hint is of the log's key."""
    hint = bytes.fromhex(log.fingerprint.removeprefix("sha256:"))[:_HINT_BYTES]
    for line in lines:
        if not line.startswith(_SIGNATURE):
            continue
        try:
            data = _decode_base64(line.rpartition(" ")[2])
        except ValueError:
            continue
        if data[:_HINT_BYTES] == hint:
            yield data[_HINT_BYTES:]


def _decode_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
