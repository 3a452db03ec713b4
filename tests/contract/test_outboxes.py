"""The simulator's outbox is to the link what the agent's own is."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncagent.ports import NumberedReport, Outbox
from syncagent.state.database import Database
from syncagent.state.outbox import SqliteOutbox
from tests.fakes.clock import FakeClock
from towline.simulate.outbox import MemoryOutbox

Step = tuple[str, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "merge", "event"]), st.integers(0, 2)),
        st.tuples(st.just("trim"), st.integers(1, 2)),
        st.tuples(st.just("take"), st.integers(1, 3)),
        st.tuples(st.just("acknowledge"), st.integers(0, 8)),
    ),
    max_size=20,
)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Callable[[], tuple[Outbox, Outbox]]]:
    """Makes an outbox of each kind."""
    opened: list[Database] = []

    def make() -> tuple[Outbox, Outbox]:
        database = Database(tmp_path / f"{len(opened)}.db")
        opened.append(database)
        return SqliteOutbox(database, FakeClock()), MemoryOutbox(FakeClock(), lambda: None)

    yield make
    for one in opened:
        one.close()


def played(outbox: Outbox, steps: list[Step]) -> list[object]:
    """State of an outbox after each step."""
    shown: list[object] = []
    for number, (what, value) in enumerate(steps):
        body = b"%d" % number
        if what == "put":
            outbox.put(f"topic/{value}", body)
        elif what == "merge":
            outbox.put(f"topic/{value}", body, joined if value else refused)
        elif what == "event":
            outbox.put_event(f"topic/{value}", body)
        elif what == "trim":
            outbox.trim("topic", value)
        elif what == "take":
            shown.append(bodies(outbox.take(value)))
        else:
            outbox.acknowledge(value)
        shown.append((bodies(outbox.sent()), outbox.acknowledged()))
    return shown


def joined(older: bytes, newer: bytes) -> bytes:
    return older + newer


def refused(older: bytes, newer: bytes) -> None:
    return None


def bodies(reports: list[NumberedReport]) -> list[tuple[int, bytes]]:
    return [(one.number, one.body) for one in reports]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_both_show_the_same_after_any_steps(
    pair: Callable[[], tuple[Outbox, Outbox]], steps: list[Step]
) -> None:
    """Order, numbers, what replaces and what is merged, acknowledgements ahead of what was sent."""
    on_disk, in_memory = pair()
    assert played(in_memory, steps) == played(on_disk, steps)
