"""Refusals in the audit log: the first ones of a minute as entries, the others as a count."""

from dataclasses import replace

from controlplane.access.operations.refusal_aggregation import (
    MAX_SOURCES,
    OTHER_SOURCES,
    RefusalAggregator,
)
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from tests.fakes.clock import START, FakeClock

ENTRY = AuditEntry(
    START, "", "signIn", AuditVerdict.REFUSED, source="192.0.2.1", detail={"user_agent": "curl"}
)


async def test_later_refusals_of_a_minute_become_one_entry_with_their_number() -> None:
    clock = FakeClock()
    refusals = RefusalAggregator(clock, max_entries=2)
    last = replace(ENTRY, action="last")
    assert [refusals.record(entry) for entry in (ENTRY, ENTRY, ENTRY, last)] == [
        ENTRY,
        ENTRY,
        None,
        None,
    ]
    await clock.advance(59.9)
    assert refusals.pop_summaries() == []
    await clock.advance(0.1)
    assert refusals.pop_summaries() == [replace(last, detail={"requests": 2, "user_agent": "curl"})]
    assert refusals.pop_summaries() == []
    assert refusals.record(ENTRY) == ENTRY


async def test_sources_without_further_refusals_are_not_counted() -> None:
    refusals = RefusalAggregator(FakeClock())
    refusals.record(ENTRY)
    refusals.record(ENTRY, "somebody")
    assert refusals.record(ENTRY, "somebody") is None
    (counted,) = refusals.pop_summaries(include_current=True)
    assert (counted.source, counted.detail["requests"]) == ("192.0.2.1", 1)
    assert refusals.pop_summaries(include_current=True) == []


async def test_too_many_sources_are_counted_as_one() -> None:
    refusals = RefusalAggregator(FakeClock())
    for number in range(MAX_SOURCES):
        assert refusals.record(ENTRY, str(number)) == ENTRY
    assert refusals.record(ENTRY, "new") == ENTRY
    assert refusals.record(ENTRY, "newer") is None
    assert [entry.source for entry in refusals.pop_summaries(include_current=True)] == [
        OTHER_SOURCES
    ]


async def test_a_known_source_is_counted_by_itself_beside_too_many_others() -> None:
    """An attacker with many addresses hides no other one."""
    refusals = RefusalAggregator(FakeClock())
    known = replace(ENTRY, source="192.0.2.7")
    assert refusals.record(known) == known
    for number in range(MAX_SOURCES):
        refusals.record(ENTRY, str(number))
    assert refusals.record(known) is None
    assert [entry.source for entry in refusals.pop_summaries(include_current=True)] == ["192.0.2.7"]
