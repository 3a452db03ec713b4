"""Reads tar archives in memory, within limits."""

import io
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from core.errors import Invalid

MAX_ENTRIES = 10_000
MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """A file or link. `target` is the target of a link, `is_hard` tells a hard link from a symbolic
    one."""

    name: str
    data: bytes = b""
    executable: bool = False
    target: str = ""
    is_hard: bool = False


@dataclass(slots=True)
class ArchiveLimits:
    """The entries and bytes that are left; several archives of one source share them.

    `noun` names the source in errors.
    """

    noun: str
    entries: int = MAX_ENTRIES
    size: int = MAX_BYTES

    def count_entry(self, size: int) -> None:
        """Takes one entry of this size. Raises Invalid beyond a limit."""
        self.entries -= 1
        self.size -= size
        if self.entries < 0:
            raise Invalid(f"{self.noun} has more than {MAX_ENTRIES:,} entries")
        if self.size < 0:
            raise Invalid(f"{self.noun} is too large")


def read_archive(data: bytes, limits: ArchiveLimits, *, links: bool) -> Iterator[ArchiveMember]:
    """Yields the files of a plain tar archive, and its links if they are allowed.

    Raises Invalid for a malformed archive, devices, and content beyond the limits.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                limits.count_entry(member.size)
                if member.isdir():
                    continue
                if links and (member.issym() or member.islnk()):
                    is_hard = member.islnk()
                    yield ArchiveMember(member.name, target=member.linkname, is_hard=is_hard)
                    continue
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    kinds = "a device" if links else "a link or a device"
                    raise Invalid(f"{limits.noun} contains {kinds}")
                yield ArchiveMember(member.name, content.read(), bool(member.mode & 0o100))
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise Invalid(f"{limits.noun} is malformed") from error


def gunzip(data: bytes, noun: str) -> bytes:
    """Unpacks gzip, also with several members. Raises Invalid if it is malformed or too large."""
    parts: list[bytes] = []
    remaining = MAX_BYTES
    while data.strip(b"\0"):
        stream = zlib.decompressobj(wbits=31)
        try:
            plain = stream.decompress(data, remaining + 1)
        except zlib.error as error:
            raise Invalid(f"{noun} is malformed") from error
        remaining -= len(plain)
        if remaining < 0:
            raise Invalid(f"{noun} unpacks to more than {MAX_BYTES:,} bytes")
        if not stream.eof:
            raise Invalid(f"{noun} is malformed: it ends too early")
        parts.append(plain)
        data = stream.unused_data
    return b"".join(parts)
