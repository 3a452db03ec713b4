"""Chains of audit rows: whatever is done to them is found, at the block where it was done."""

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.audit.model.blocks import MAX_BLOCK_ROWS, batches, decompress, pack, unpack
from controlplane.audit.model.chains import AuditKind, ChainHead, TargetLocation, kind_of
from controlplane.audit.model.formats import cef, json_line, syslog
from controlplane.audit.model.verification import ChainVerifier, IndexedBlock
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict, RepeatedEntry
from core.errors import Unavailable
from core.open_streams import RequestEnd
from core.zstd import zstd

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
HERE = TargetLocation("c1")
SIZES = st.integers(1, 4)
TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
ENTRIES = st.lists(
    st.builds(
        AuditEntry,
        at=st.just(NOW),
        actor=TEXT,
        action=st.just("createCluster"),
        verdict=st.sampled_from(AuditVerdict),
        target=TEXT,
        source=TEXT,
        status=st.none() | st.integers(100, 599),
        detail=st.dictionaries(TEXT, st.integers(-(2**53), 2**53) | TEXT | st.booleans()),
    ),
    min_size=1,
    max_size=6,
)


def linked(entries: list[AuditEntry], size: int = 1) -> tuple[ChainHead, list[IndexedBlock]]:
    """Blocks as the store would have written them, and where their chain ends."""
    chain, blocks = ChainHead(AuditKind.CHANGE), []
    for start in range(0, len(entries), size):
        block, terms = pack(chain, [(one, HERE) for one in entries[start : start + size]])
        chain = replace(chain, number=block.last_number, hash=block.hash)
        blocks.append((replace(block, id=start + 1), terms))
    return chain, blocks


ENDS = st.lists(
    st.tuples(
        st.binary(min_size=16, max_size=16).map(bytes.hex),
        st.floats(0, 1e9) | st.sampled_from([0.0, 1e-06, 0.1 + 0.2]),
        st.integers(0, 2**62),
    ),
    max_size=3 * MAX_BLOCK_ROWS,
)


def separate(entry: AuditEntry) -> list[AuditEntry]:
    """An entry for each row, as if each request had ended by itself."""
    if not isinstance(entry, RepeatedEntry):
        return [entry]
    common = fields_of(entry)
    return [
        replace(
            AuditEntry(**common),
            request_id=id,
            detail={**entry.detail, "bytes_out": size, "seconds": round(seconds, 6)},
        )
        for id, seconds, size in entry.ends
    ]


def fields_of(entry: AuditEntry) -> dict[str, Any]:
    return {field.name: getattr(entry, field.name) for field in fields(AuditEntry)}


@given(ENTRIES, st.lists(ENDS, max_size=3), st.randoms(use_true_random=False))
def test_repeated_requests_have_the_blocks_of_separate_ones(
    entries: list[AuditEntry], ends: list[list[RequestEnd]], shuffle: Random
) -> None:
    """To the byte, whatever a user put into the fields, and at whatever place in a block."""
    common = fields_of(entries[0])
    mixed = entries + [RepeatedEntry(**common, ends=one) for one in ends if one]
    shuffle.shuffle(mixed)
    together, apart = ChainHead(AuditKind.CHANGE), ChainHead(AuditKind.CHANGE)
    rows = [row for entry in mixed for row in separate(entry)]
    for batch, batch_apart in zip(batches(mixed), batches(rows), strict=True):
        block, terms = pack(together, [(entry, HERE) for entry in batch])
        assert (block, terms) == pack(apart, [(entry, HERE) for entry in batch_apart])
        together = apart = replace(together, number=block.last_number, hash=block.hash)


def rows_of(blocks: list[IndexedBlock]) -> list[AuditEntry]:
    """All rows, without their places in the store."""
    rows = [row for block, _ in blocks for row in unpack(block, lambda row: True)]
    return [replace(row, id=None, number=0, hash="", cluster_id="") for row in rows]


def fault(chain: ChainHead, blocks: list[IndexedBlock]) -> int | None:
    """The number of the first broken row."""
    check = ChainVerifier(chain)
    found = check.verify(blocks) or check.end(chain)
    return found.number if found else None


@dataclass(frozen=True)
class Thing:
    """A value of the domain in a row's detail; its fields do not stand in the order of letters."""

    z: object
    a: object


DETAIL = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT | st.sampled_from(AuditVerdict),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(TEXT | st.integers(0, 9), inner, max_size=3)
        | st.dictionaries(st.sampled_from(AuditVerdict), inner)
        | st.builds(Thing, inner, inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(TEXT, DETAIL, max_size=4))
def test_details_of_any_kind_verify_when_they_are_read_again(detail: dict[str, object]) -> None:
    """Written as text and read back, a row has the hash that it was given."""
    entry = AuditEntry(NOW, "ann", "createCluster", AuditVerdict.ALLOWED, detail=detail)
    chain, blocks = linked([entry])
    assert fault(chain, blocks) is None
    (row,) = rows_of(blocks)
    assert fault(*linked([row])) is None
    assert row.detail == orjson.loads(orjson.dumps(detail, option=orjson.OPT_NON_STR_KEYS))


LAST = ChainHead(AuditKind.CHANGE, 41, "0" * 64)
FULL = AuditEntry(
    at=NOW.replace(microsecond=0),
    actor="ada@example.org",
    action="updateCluster",
    verdict=AuditVerdict.REFUSED,
    actor_id="u1",
    token_id="t1",
    source="192.0.2.1",
    target="dev",
    target_id="c1",
    status=403,
    request_id="r1",
    detail={"b": [0, 0, 0], "a": {"d": None, "c": "ü"}},
)
PLACE = TargetLocation("c2", "p1", "b" * 64, "a" * 64)
LINE = (
    '[1,"change",42,"2026-01-02T03:04:05.000000+00:00","ada@example.org","u1","t1","192.0.2.1",'
    f'"updateCluster","refused","dev","c1","c2","p1","{"b" * 64}","{"a" * 64}",403,"r1",'
    '{"a":{"c":"ü","d":null},"b":[0,0,0]}]'
)
HASH = sha256(b"0" * 64 + b"\n" + LINE.encode()).hexdigest()


def test_the_canonical_form_never_changes() -> None:
    """Blocks of earlier versions must stay verifiable."""
    block, terms = pack(LAST, [(FULL, PLACE)])
    assert decompress(block.packed)[0] == [LINE.encode()]
    assert (block.first_number, block.last_number, block.hash) == (42, 42, HASH)
    assert terms == {
        ("actor", "ada@example.org"),
        ("action", "updateCluster"),
        ("verdict", "refused"),
        ("target", "dev"),
        ("target", "c1"),
        ("cluster_id", "c2"),
        ("project_id", "p1"),
    }


def test_a_row_is_read_with_all_of_its_fields() -> None:
    block, _ = pack(LAST, [(FULL, PLACE)])
    (row,) = unpack(replace(block, id=3), lambda row: True)
    assert row == replace(
        FULL,
        cluster_id="c2",
        project_id="p1",
        before_digest="b" * 64,
        after_digest="a" * 64,
        number=42,
        hash=HASH,
        id=3 * 512,
    )


def test_rows_of_a_block_have_different_ids() -> None:
    """Also those that a search leaves out: the ID is the cursor of a page."""
    block, _ = pack(LAST, [(replace(FULL, target=str(number)), PLACE) for number in range(3)])
    (row,) = unpack(replace(block, id=1), lambda row: row.target == "2")
    assert (row.id, row.number) == (514, 44)


def test_repeated_requests_with_numbers_in_their_details_are_separate_rows() -> None:
    many = RepeatedEntry(**fields_of(FULL), ends=[("0" * 32, 0.0, 0), ("1" * 32, 0.25, 7)])
    apart = [(row, PLACE) for row in separate(many)]
    assert pack(LAST, [(many, PLACE)]) == pack(LAST, apart)


def test_a_block_is_full_at_512_rows() -> None:
    ends: list[RequestEnd] = [(f"{number:032x}", 0.5, number) for number in range(1000)]
    many = RepeatedEntry(**fields_of(FULL), ends=ends)
    sizes = [
        [entry.row_count for entry in batch] for batch in batches([FULL, many, *[FULL] * 25, many])
    ]
    assert sizes == [[1, 511], [489, *[1] * 23], [1, 1, 510], [490]]


def test_a_break_names_the_rows_that_may_be_altered() -> None:
    chain, blocks = linked([FULL] * 4, size=2)
    (first, terms), second = blocks
    altered = replace(first, hash="0" * 64), terms
    alone = linked([FULL])[1][0][0]
    for changed, text in (
        ([altered, second], "change row 1: was altered, or a row up to 2"),
        ([(replace(alone, hash="0" * 64), terms), second], "change row 1: was altered"),
        ([second], "change row 1: is missing"),
    ):
        assert str(ChainVerifier(chain).verify(changed)) == text
    check = ChainVerifier(chain)
    assert check.verify([blocks[0]]) is None
    assert str(check.end(chain)) == "change row 3: is missing, and all up to 4"
    shorter = replace(chain, number=2)
    other = ChainVerifier(shorter)
    assert other.verify([blocks[0]]) is None
    text = "change row 2: does not match the recorded end of the chain"
    assert str(other.end(shorter)) == text


def test_two_rows_on_one_line_are_not_intact() -> None:
    block, terms = pack(LAST, [(FULL, PLACE), (FULL, PLACE)])
    body = b",".join(decompress(block.packed)[0])
    joined = replace(block, packed=zstd.compress(body))
    chain = replace(LAST, floor=41, floor_hash=LAST.hash, number=43, hash=block.hash)
    assert fault(chain, [(block, terms)]) is None
    assert fault(chain, [(joined, terms)]) == 42
    with pytest.raises(Unavailable, match="is damaged in change rows 42 to 43"):
        unpack(joined, lambda row: True)


@given(ENTRIES, SIZES)
def test_a_chain_as_it_was_written_is_whole(entries: list[AuditEntry], size: int) -> None:
    chain, blocks = linked(entries, size)
    assert fault(chain, blocks) is None
    assert rows_of(blocks) == entries


@given(ENTRIES, st.integers(1, 400), st.integers(0, 90))
def test_batches_keep_all_rows_in_order(
    entries: list[AuditEntry], times: int, seconds: int
) -> None:
    later = timedelta(seconds=seconds)
    many = [replace(one, at=NOW + n * later) for n, one in enumerate(entries * times)]
    some = list(batches(many))
    assert [one for batch in some for one in batch] == many
    assert all(len(batch) <= MAX_BLOCK_ROWS for batch in some)
    assert all(batch[-1].at - batch[0].at < timedelta(minutes=1) for batch in some)


@pytest.mark.parametrize(("seconds", "blocks"), [(59, 1), (60, 2), (-59, 1), (-60, 2)])
def test_rows_a_minute_apart_are_in_different_blocks(seconds: int, blocks: int) -> None:
    """Also if the clock of another replica is behind."""
    first = AuditEntry(NOW, "ada", "createCluster", AuditVerdict.ALLOWED)
    second = replace(first, at=NOW + timedelta(seconds=seconds))
    assert len(list(batches([first, second]))) == blocks
    (block, _) = pack(ChainHead(AuditKind.CHANGE), [(first, HERE), (second, HERE)])
    assert (block.first_at, block.last_at) == (min(NOW, second.at), max(NOW, second.at))


@given(ENTRIES, SIZES, st.data())
def test_an_altered_block_is_the_one_that_is_named(
    entries: list[AuditEntry], size: int, data: st.DataObject
) -> None:
    chain, blocks = linked(entries, size)
    at = data.draw(st.integers(0, len(blocks) - 1))
    whole = blocks[at]
    block, terms = whole
    changes: list[IndexedBlock] = [
        (replace(block, hash="0" * 64), terms),
        (replace(block, previous_hash="0" * 64), terms),
        (replace(block, first_at=NOW - timedelta(microseconds=1)), terms),
        (replace(block, last_at=NOW + timedelta(microseconds=1)), terms),
        (replace(block, kind=AuditKind.SIGN_IN), terms),
        (replace(block, last_number=block.last_number + 1), terms),
        (replace(block, packed=block.packed[:-1]), terms),
        (replace(block, packed=block.packed + b"0"), terms),
        (block, terms | {("actor", "mallory of nowhere")}),
        (block, terms - {("action", "createCluster")}),
    ]
    for change in changes:
        blocks[at] = change
        assert fault(chain, blocks) == block.first_number, change
    blocks[at] = whole
    assert fault(chain, blocks) is None


@given(ENTRIES, SIZES, st.data())
def test_a_flipped_byte_is_found(entries: list[AuditEntry], size: int, data: st.DataObject) -> None:
    """Unless it is padding of the compression, which no row is read from."""
    chain, blocks = linked(entries, size)
    at = data.draw(st.integers(0, len(blocks) - 1))
    block, terms = blocks[at]
    packed = bytearray(block.packed)
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    blocks[at] = replace(block, packed=bytes(packed)), terms
    assert fault(chain, blocks) == block.first_number or rows_of(blocks) == entries


@given(ENTRIES, SIZES, st.data())
def test_a_missing_or_moved_block_is_the_one_that_is_named(
    entries: list[AuditEntry], size: int, data: st.DataObject
) -> None:
    chain, blocks = linked(entries, size)
    at = data.draw(st.integers(0, len(blocks) - 1))
    first = blocks[at][0].first_number
    if at + 1 < len(blocks) and data.draw(st.booleans()):
        blocks[at], blocks[at + 1] = blocks[at + 1], blocks[at]
    else:
        del blocks[at]
    assert fault(chain, blocks) == first


def test_a_chain_written_anew_does_not_end_where_it_should() -> None:
    """Relinking altered rows changes the end too, which others have noted."""
    chain, _ = linked([AuditEntry(NOW, "ada", "createCluster", AuditVerdict.ALLOWED)])
    _, forged = linked([AuditEntry(NOW, "eve", "createCluster", AuditVerdict.ALLOWED)])
    check = ChainVerifier(chain)
    assert check.verify(forged) is None
    assert check.end(chain) is not None


def test_rows_that_others_append_during_the_verification_are_no_break() -> None:
    entries = [AuditEntry(NOW, "ada", "createCluster", AuditVerdict.ALLOWED)] * 2
    before, blocks = linked(entries[:1])
    after, _ = linked(entries)
    verifier = ChainVerifier(before)
    assert verifier.verify(blocks) is None
    assert verifier.end(before) is None and verifier.end(after) is None


def test_actions_tell_their_kind() -> None:
    sign_ins = """signIn signOut signOutEverywhere useToken setUp approveDevice refuseDevice
        exchangeToken renewToken endTokens""".split()
    kinds = {
        "createCluster": AuditKind.CHANGE,
        "expireAudit": AuditKind.CHANGE,
        "kubernetes.get": AuditKind.REQUEST,
        "audit.dropped": AuditKind.REQUEST,
        "agent.connect": AuditKind.AGENT,
    } | dict.fromkeys(sign_ins, AuditKind.SIGN_IN)
    assert {action: kind_of(action) for action in kinds} == kinds


@given(TEXT, TEXT)
def test_a_row_stays_one_line_in_every_format(actor: str, target: str) -> None:
    """Line feeds and separators in what strangers sent do not make rows of their own."""
    row = AuditEntry(NOW, actor, "kubernetes.get", AuditVerdict.REFUSED, target=target)
    for line in (json_line(row), cef(row)):
        assert line.count(b"\n") == 1 and b"\r" not in line
    assert b"\n" not in syslog(row, "hub")


def test_cef_escapes_what_would_end_a_field() -> None:
    row = AuditEntry(NOW, "a=b\\c", "kubernetes.get|x", AuditVerdict.REFUSED, target="one\ntwo")
    line = cef(row).decode()
    assert line.startswith("CEF:0|Towline|Towline|1|kubernetes.get\\|x|kubernetes.get\\|x|6|")
    assert "suser=a\\=b\\\\c " in line and "cs3=one\\ntwo " in line


def test_cef_has_the_fields_that_are_known() -> None:
    row = replace(FULL, verdict=AuditVerdict.ALLOWED, number=42, hash="f" * 64, cluster_id="c2")
    head = "CEF:0|Towline|Towline|1|updateCluster|updateCluster|3|"
    known = (
        "rt=1767323045000 suser=ada@example.org suid=u1 src=192.0.2.1 act=updateCluster "
        f"outcome=allowed externalId=r1 cs1Label=cluster cs1=c2 cs2Label=hash cs2={'f' * 64} "
        "cs3Label=target cs3=dev cs4Label=targetId cs4=c1 cn1Label=number cn1=42\n"
    )
    assert cef(row).decode() == head + known
    short = AuditEntry(NOW, "ada", "signIn", AuditVerdict.ALLOWED)
    assert cef(short).decode().removeprefix("CEF:0|Towline|Towline|1|signIn|signIn|3|") == (
        "rt=1767323045678 suser=ada act=signIn outcome=allowed cn1Label=number cn1=0\n"
    )


def test_cef_puts_an_ipv6_source_where_addresses_of_its_kind_belong() -> None:
    line = cef(replace(FULL, source="2001:db8::1")).decode()
    assert " c6a2Label=source c6a2=2001:db8::1 " in line and " src=" not in line


def test_json_lines_have_what_verifies_a_row() -> None:
    row = replace(FULL, number=42, hash=HASH, cluster_id="c2", project_id="p1", id=7)
    row = replace(row, before_digest="b" * 64, after_digest="a" * 64)
    assert orjson.loads(json_line(row)) == {
        "kind": "change",
        "number": 42,
        "at": "2026-01-02T03:04:05.000000+00:00",
        "actor": "ada@example.org",
        "actorId": "u1",
        "tokenId": "t1",
        "source": "192.0.2.1",
        "action": "updateCluster",
        "verdict": "refused",
        "target": "dev",
        "targetId": "c1",
        "clusterId": "c2",
        "projectId": "p1",
        "before": "b" * 64,
        "after": "a" * 64,
        "status": 403,
        "requestId": "r1",
        "detail": {"a": {"c": "ü", "d": None}, "b": [0, 0, 0]},
        "hash": HASH,
    }


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("hub.example.org", "hub.example.org"),
        ("h" * 256, "h" * 255),
        ("h\tü b", "hb"),
        (" ", "-"),
    ],
)
def test_syslog_is_rfc_5424(host: str, shown: str) -> None:
    row = AuditEntry(NOW.replace(microsecond=0), "ada", "createCluster", AuditVerdict.ALLOWED)
    for verdict, priority in ((AuditVerdict.ALLOWED, 109), (AuditVerdict.REFUSED, 108)):
        row = replace(row, verdict=verdict)
        head = f"<{priority}>1 2026-01-02T03:04:05.000000Z {shown} towline - change - "
        assert syslog(row, host) == head.encode() + json_line(row).rstrip()
