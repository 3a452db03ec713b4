"""Blocks of the audit log: consecutive rows of one chain, packed and compressed.

A block holds the canonical bytes of its rows, which their hashes cover. Old blocks must stay
verifiable, so the canonical form must never change. An index term is a field with a value that at
least one row of the block has: searches unpack only blocks with the terms that they ask for.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import orjson

from controlplane.audit.model.chains import AuditKind, ChainHead, TargetLocation, chain_hash
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict, RepeatedEntry
from controlplane.platform.time_text import format_time
from core.errors import Unavailable
from core.json_object import JsonMapping
from core.open_streams import RequestEnd
from core.zstd import zstd

MAX_BLOCK_ROWS = 512
_MAX_BLOCK_SPAN = timedelta(minutes=1)
_FORM = 1
# A new compressor for each block would take three times as long for one of a single row. Its calls
# are safe in several threads.
_COMPRESSOR = zstd.ZstdCompressor(level=1)
_SORTED = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
# Raises TypeError if keys are not text, where sorting would fail.
_PLAIN = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
# Nobody outside of this process knows it, so no field of a request contains it.
_GAP = secrets.token_hex(16)
_ENCODED_GAP = orjson.dumps(_GAP)


class RowContent(NamedTuple):
    """The content of a row in canonical order."""

    form: int
    kind: str
    number: int
    at: str
    actor: str
    actor_id: str
    token_id: str | None
    source: str
    action: str
    verdict: str
    target: str
    target_id: str
    cluster_id: str
    project_id: str
    before_digest: str
    after_digest: str
    status: int | None
    request_id: str
    detail: JsonMapping


LocatedEntry = tuple[AuditEntry, TargetLocation]
RowMatch = Callable[[RowContent], bool]
IndexTerm = tuple[str, str]
_INDEXED = ("actor", "action", "verdict", "target", "target_id", "cluster_id", "project_id")


@dataclass(frozen=True, slots=True)
class AuditBlock:
    """Consecutive rows of a chain."""

    kind: AuditKind
    first_number: int
    last_number: int
    first_at: datetime
    """Time of the earliest row."""
    last_at: datetime
    """Time of the latest row."""
    previous_hash: str
    """Hash of the row before the block."""
    hash: str
    """Hash of the last row."""
    packed: bytes
    """Canonical bytes of the rows, one row a line, compressed by zstd."""
    id: int = 0


def batches(entries: Sequence[AuditEntry]) -> Iterator[Sequence[AuditEntry]]:
    """Splits entries into blocks of at most 512 rows within a minute.

    Retention deletes whole blocks, so it is exact to a minute.
    """
    batch: list[AuditEntry] = []
    rows = 0
    for entry in entries:
        rest: AuditEntry | None = entry
        while rest is not None:
            is_far = bool(batch) and abs(rest.at - batch[0].at) >= _MAX_BLOCK_SPAN
            if is_far or rows == MAX_BLOCK_ROWS:
                yield batch
                batch, rows = [], 0
            part, rest = rest.split(MAX_BLOCK_ROWS - rows)
            batch.append(part)
            rows += part.row_count
    if batch:
        yield batch


def pack(chain: ChainHead, entries: Sequence[LocatedEntry]) -> tuple[AuditBlock, set[IndexTerm]]:
    """Numbers and links entries at the end of a chain; returns their block and its index."""
    # Rows of one batch often share their time.
    times = {at: format_time(at) for at in {entry.at for entry, _ in entries}}
    contents: list[RowContent] = []
    lines: list[bytes] = []
    for entry, location in entries:
        number = chain.number + len(lines) + 1
        content = _row_content(entry, (chain.kind.value, number, times[entry.at]), location)
        contents.append(content)
        if isinstance(entry, RepeatedEntry):
            lines += _repeated_lines(content, entry.ends)
        else:
            lines.append(_canonical_bytes(content))
    digest = chain.hash
    for line in lines:
        digest = chain_hash(digest, line)
    last_number = chain.number + len(lines)
    packed = _COMPRESSOR.compress(b"\n".join(lines), zstd.ZstdCompressor.FLUSH_FRAME)
    block = AuditBlock(
        chain.kind, chain.number + 1, last_number, *_time_span(contents), chain.hash, digest, packed
    )
    return block, index_terms(contents)


def unpack(block: AuditBlock, matches: RowMatch) -> list[AuditEntry]:
    """Returns the rows of a block that match. Raises Unavailable if the block is damaged."""
    try:
        lines, contents = decompress(block.packed)
    except ValueError as error:
        raise Unavailable(
            f"the audit log is damaged in {block.kind.value} rows {block.first_number} to "
            f"{block.last_number}: run `towline admin doctor`, and restore a backup"
        ) from error
    first_id = block.id * MAX_BLOCK_ROWS
    entries: list[AuditEntry] = []
    digest = block.previous_hash
    for id, (line, content) in enumerate(zip(lines, contents, strict=True), first_id):
        digest = chain_hash(digest, line)
        if matches(content):
            entries.append(_audit_entry(content, id, digest))
    return entries


def decompress(packed: bytes) -> tuple[list[bytes], list[RowContent]]:
    """Returns the canonical bytes and the contents of rows. Raises ValueError for other bytes."""
    reader = zstd.ZstdDecompressor()
    try:
        body = reader.decompress(packed)
        if not reader.eof or reader.unused_data:
            raise ValueError("the compressed rows do not end where they should")
        lines = body.split(b"\n")
        contents = [RowContent._make(row) for row in orjson.loads(b"[%b]" % b",".join(lines))]
    except (zstd.ZstdError, TypeError) as error:
        raise ValueError(str(error)) from error
    if len(lines) != len(contents):
        raise ValueError("the lines are not rows")
    return lines, contents


def index_terms(contents: Iterable[RowContent]) -> set[IndexTerm]:
    """Returns the index terms of rows; the ID of a target is a target as well."""
    columns = dict(zip(RowContent._fields, zip(*contents, strict=True), strict=True))
    return {
        ("target" if field == "target_id" else field, value)
        for field in _INDEXED
        for value in set(columns[field])
        if value
    }


def is_intact(block: AuditBlock, terms: set[IndexTerm], previous: str) -> bool:
    """Returns whether the block follows the row with the hash `previous`, and holds the rows and
    the index that it had when it was written.
    """
    try:
        lines, contents = decompress(block.packed)
        span = _time_span(contents)
    except (ValueError, TypeError):
        return False
    digest = previous
    for line in lines:
        digest = chain_hash(digest, line)
    numbers = range(block.first_number, block.last_number + 1)
    return (
        (previous, digest) == (block.previous_hash, block.hash)
        and [(row.kind, row.number) for row in contents]
        == [(block.kind, number) for number in numbers]
        and span == (block.first_at, block.last_at)
        and terms == index_terms(contents)
    )


def _row_content(
    entry: AuditEntry, start: tuple[str, int, str], location: TargetLocation
) -> RowContent:
    """Returns the content of a row. `start`: kind, number and time."""
    return RowContent(
        _FORM,
        *start,
        entry.actor,
        entry.actor_id,
        entry.token_id,
        entry.source,
        entry.action,
        entry.verdict.value,
        entry.target,
        entry.target_id,
        *location,
        entry.status,
        entry.request_id,
        entry.detail,
    )


def _canonical_bytes(content: RowContent) -> bytes:
    """Serializes a row as a JSON array; objects in its detail have sorted keys."""
    try:
        return orjson.dumps(tuple(content), option=_PLAIN)
    except TypeError:
        plain = orjson.loads(orjson.dumps(content.detail, option=orjson.OPT_NON_STR_KEYS))
        return orjson.dumps((*content[:-1], plain), option=_SORTED)


def _repeated_lines(content: RowContent, ends: Sequence[RequestEnd]) -> list[bytes]:
    """Serializes rows that differ from `content` in number, ID, size and duration only."""
    detail = {**content.detail, "bytes_out": _GAP, "seconds": _GAP}
    template = _canonical_bytes(content._replace(number=0, request_id=_GAP, detail=detail))
    # Only the form and the kind stand before the number.
    to_number, rest = template.split(b",0,", 1)
    parts = to_number, *rest.split(_ENCODED_GAP)
    row = b'%b,%%d,%b"%%b"%b%%d%b%%b%b' % tuple(part.replace(b"%", b"%%") for part in parts)
    seconds = orjson.dumps([round(seconds, 6) for _, seconds, _ in ends])[1:-1].split(b",")
    return [
        row % (number, id.encode(), size, duration)
        for number, ((id, _, size), duration) in enumerate(
            zip(ends, seconds, strict=True), content.number
        )
    ]


def _audit_entry(content: RowContent, id: int, hash: str) -> AuditEntry:
    return AuditEntry(
        at=datetime.fromisoformat(content.at),
        actor=content.actor,
        action=content.action,
        verdict=AuditVerdict(content.verdict),
        actor_id=content.actor_id,
        token_id=content.token_id,
        source=content.source,
        target=content.target,
        target_id=content.target_id,
        status=content.status,
        request_id=content.request_id,
        detail=content.detail,
        cluster_id=content.cluster_id,
        project_id=content.project_id,
        before_digest=content.before_digest,
        after_digest=content.after_digest,
        number=content.number,
        hash=hash,
        id=id,
    )


def _time_span(contents: Iterable[RowContent]) -> tuple[datetime, datetime]:
    # Times in canonical form sort as text.
    times = [content.at for content in contents]
    return datetime.fromisoformat(min(times)), datetime.fromisoformat(max(times))
