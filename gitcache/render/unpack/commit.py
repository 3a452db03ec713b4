"""Builds the objects of a commit as git does, in its SHA-256 object format, and packs them."""

import hashlib
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gitcache.domain.artifacts import BuiltCommit, CommitText
from gitcache.domain.trees import TREE
from gitcache.render.unpack.layers import CommittedFile

_COMMIT, _TREE, _BLOB = b"commit", b"tree", b"blob"
_TYPE_NUMBERS = {_COMMIT: 1, _TREE: 2, _BLOB: 3}
_COMPRESSION = 1

_Objects = dict[str, tuple[bytes, bytes]]


@dataclass(slots=True)
class _Folder:
    files: dict[str, CommittedFile] = field(default_factory=dict)
    folders: dict[str, "_Folder"] = field(default_factory=dict)


def build_commit(files: Mapping[str, CommittedFile], text: CommitText) -> BuiltCommit:
    """Builds a commit with these files. Pure: the same input gives the same commit."""
    root = _Folder()
    for path, file in files.items():
        *parents, name = path.split("/")
        folder = root
        for parent in parents:
            folder = folder.folders.setdefault(parent, _Folder())
        folder.files[name] = file
    objects: _Objects = {}
    tree = _add_tree(root, objects)
    person = f"{text.author} <{text.author}> {text.seconds} +0000"
    data = f"tree {tree}\nauthor {person}\ncommitter {person}\n\n{text.subject}\n".encode()
    sha = _add_object(objects, _COMMIT, data)
    return BuiltCommit(sha, data, _pack(objects.values()))


def _add_tree(folder: _Folder, objects: _Objects) -> str:
    entries = {
        name.encode(): (file.mode, _add_object(objects, _BLOB, file.data))
        for name, file in folder.files.items()
    }
    # Git sorts folders as if their names ended with a slash.
    sorted_as = {name: name for name in entries}
    for name, inside in folder.folders.items():
        entries[name.encode()] = (TREE, _add_tree(inside, objects))
        sorted_as[name.encode()] = name.encode() + b"/"
    ordered = sorted(entries, key=lambda name: sorted_as[name])
    return _add_object(
        objects,
        _TREE,
        b"".join(
            b"%o %s\0%s" % (entries[name][0], name, bytes.fromhex(entries[name][1]))
            for name in ordered
        ),
    )


def _add_object(objects: _Objects, kind: bytes, data: bytes) -> str:
    sha = hashlib.sha256(object_bytes(kind, data)).hexdigest()
    objects.setdefault(sha, (kind, data))
    return sha


def object_bytes(kind: bytes, data: bytes) -> bytes:
    """Returns an object as git hashes it: the SHA-256 of this is its id."""
    return b"%s %d\0%s" % (kind, len(data), data)


def _pack(objects: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Packs objects without deltas (gitformat-pack(5))."""
    listed = list(objects)
    parts = [struct.pack(">4sII", b"PACK", 2, len(listed))]
    for kind, data in listed:
        parts += [_pack_header(_TYPE_NUMBERS[kind], len(data)), zlib.compress(data, _COMPRESSION)]
    body = b"".join(parts)
    return body + hashlib.sha256(body).digest()


def _pack_header(number: int, size: int) -> bytes:
    byte, size = number << 4 | size & 15, size >> 4
    header = bytearray()
    while size:
        header.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    header.append(byte)
    return bytes(header)
