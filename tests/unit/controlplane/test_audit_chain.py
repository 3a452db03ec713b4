"""Chains of audit rows: whatever is done to them is found, at the row where it was done."""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.audit import (
    AuditKind,
    ChainHead,
    ChainVerifier,
    TargetLocation,
    chain_hash,
    content,
    detail_json,
    kind_of,
    row_hash,
)
from controlplane.domain.audit_formats import cef, json_line, syslog
from controlplane.domain.ledger import AuditEntry, AuditVerdict

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
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


def linked(entries: list[AuditEntry]) -> tuple[ChainHead, list[AuditEntry]]:
    """Rows as the store would have written them, and where their chain ends."""
    rows, digest = [], ""
    for number, entry in enumerate(entries, 1):
        numbered = replace(entry, number=number)
        digest = row_hash(digest, numbered)
        rows.append(replace(numbered, hash=digest))
    return ChainHead(AuditKind.CHANGE, len(rows), digest), rows


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
    entry = AuditEntry(NOW, "ann", "createCluster", AuditVerdict.ALLOWED, detail=detail, number=1)
    text = detail_json(entry)
    written = chain_hash("", content(entry, AuditKind.CHANGE, 1, TargetLocation(), text))
    assert row_hash("", replace(entry, detail=json.loads(text))) == written


@given(ENTRIES)
def test_a_chain_as_it_was_written_is_whole(entries: list[AuditEntry]) -> None:
    chain, rows = linked(entries)
    check = ChainVerifier(chain)
    assert check.take(rows) is None
    assert check.end() is None


@given(ENTRIES, st.data())
def test_an_altered_row_is_the_one_that_is_named(
    entries: list[AuditEntry], data: st.DataObject
) -> None:
    chain, rows = linked(entries)
    at = data.draw(st.integers(0, len(rows) - 1))
    changes = st.sampled_from(
        [
            {"actor": "mallory" + rows[at].actor},
            {"at": NOW + timedelta(microseconds=1)},
            {"detail": {**rows[at].detail, "added": 1}},
            {"before_digest": "0"},
            {"cluster_id": "other"},
            {"hash": "0" * 64},
        ]
    )
    rows[at] = replace(rows[at], **data.draw(changes))
    found = ChainVerifier(chain).take(rows)
    assert found is not None and found.number == at + 1


@given(ENTRIES, st.data())
def test_a_missing_row_is_the_one_that_is_named(
    entries: list[AuditEntry], data: st.DataObject
) -> None:
    chain, rows = linked(entries)
    at = data.draw(st.integers(0, len(rows) - 1))
    del rows[at]
    check = ChainVerifier(chain)
    found = check.take(rows) or check.end()
    assert found is not None and found.number == at + 1


def test_a_chain_written_anew_does_not_end_where_it_should() -> None:
    """Whoever links altered rows again has to alter the end too, which others have noted."""
    chain, _ = linked([AuditEntry(NOW, "ada", "createCluster", AuditVerdict.ALLOWED)])
    _, forged = linked([AuditEntry(NOW, "eve", "createCluster", AuditVerdict.ALLOWED)])
    check = ChainVerifier(chain)
    assert check.take(forged) is None
    assert check.end() is not None


def test_actions_tell_their_kind() -> None:
    kinds = {
        "createCluster": AuditKind.CHANGE,
        "signIn": AuditKind.SIGN_IN,
        "kubernetes.get": AuditKind.REQUEST,
        "agent.connect": AuditKind.AGENT,
    }
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
    assert "suser=a\\=b\\\\c " in line and "dvc=one\\ntwo " in line


def test_syslog_is_rfc_5424() -> None:
    row = AuditEntry(NOW, "ada", "createCluster", AuditVerdict.ALLOWED)
    head = b"<109>1 2026-01-02T03:04:05.678901Z hub.example.org towline - change - {"
    assert syslog(row, "hub.example.org").startswith(head)
