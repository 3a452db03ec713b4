"""File tree of an image with owners and modes, written as a reproducible tar."""

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

_MERGED = ("bin", "sbin", "lib", "lib64")


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file (`data`), a symbolic link (`link`) or, with neither, a directory."""

    data: bytes | None = None
    link: str | None = None
    mode: int = 0o755
    owner: int = 0


Tree = Mapping[str, TreeEntry]


def place_files(path: str) -> str:
    """Maps a package's path to a merged-/usr system."""
    clean = str(PurePosixPath(path.lstrip("./")))
    first = clean.partition("/")[0]
    return f"usr/{clean}" if first in _MERGED else clean


def skeleton() -> dict[str, TreeEntry]:
    """Files that no package contains: links of the merged /usr, the user, writable folders."""
    tree = {name: TreeEntry(link=f"usr/{name}", mode=0o777) for name in _MERGED}
    tree |= {
        "etc/passwd": _text(
            "root:x:0:0::/root:/sbin/nologin\ntowline:x:65532:65532::/tmp:/sbin/nologin\n"
        ),
        "etc/group": _text("root:x:0:\ntowline:x:65532:\n"),
        "etc/nsswitch.conf": _text("passwd: files\ngroup: files\nhosts: files dns\n"),
        "dev": TreeEntry(),
        "proc": TreeEntry(mode=0o555),
        "sys": TreeEntry(mode=0o555),
        "tmp": TreeEntry(mode=0o1777),
        "var/lib/towline": TreeEntry(mode=0o700, owner=65532),
        "var/lib/towline-agent": TreeEntry(mode=0o700, owner=65532),
    }
    return tree


def _text(text: str) -> TreeEntry:
    return TreeEntry(text.encode(), mode=0o644)


def archive(tree: Tree, moment: int) -> bytes:
    """Writes a sorted tar file of the tree."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, entry in sorted(_with_parents(tree).items()):
            tar.addfile(_head(path, entry, moment), io.BytesIO(entry.data or b""))
    return plain.getvalue()


def _head(path: str, entry: TreeEntry, moment: int) -> tarfile.TarInfo:
    head = tarfile.TarInfo(path)
    head.mode, head.mtime, head.uid, head.gid = entry.mode, moment, entry.owner, entry.owner
    if entry.link is not None:
        head.type, head.linkname = tarfile.SYMTYPE, entry.link
    elif entry.data is None:
        head.type = tarfile.DIRTYPE
    else:
        head.size = len(entry.data)
    return head


def _with_parents(tree: Tree) -> dict[str, TreeEntry]:
    whole = dict(tree)
    for path in tree:
        for parent in PurePosixPath(path).parents[:-1]:
            whole.setdefault(str(parent), TreeEntry())
    return whole
