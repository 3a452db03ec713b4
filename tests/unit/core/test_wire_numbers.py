"""Numbers of the wire stay within what their readers can count to."""

import pytest
from google.protobuf.message import Message

from core.errors import Invalid
from core.wire import limits
from core.wire.v1 import agent_pb2 as wire

LARGEST_INT = 2**31 - 1


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (wire.Hello(facts=wire.ClusterFacts(nodes=2**32 - 1)), "ClusterFacts.nodes"),
        (wire.Hello(held=[wire.Held(sequence=2**64 - 1)]), "Held.sequence"),
        (wire.Report(number=2**64 - 1), "Report.number"),
        (wire.Report(status=wire.ServiceStatus(sequence=2**31)), "ServiceStatus.sequence"),
        (wire.Desired(sequence=2**31), "Desired.sequence"),
    ],
)
def test_a_number_that_is_too_large_is_refused_by_name(message: Message, field: str) -> None:
    with pytest.raises(Invalid, match=f"towline.v1.{field}: .*the limit is"):
        limits.check(message)


def test_the_largest_numbers_and_unbounded_ones_pass() -> None:
    limits.check(wire.Report(number=2**53 - 1, at_ms=2**63 - 1))
    limits.check(wire.Report(status=wire.ServiceStatus(sequence=LARGEST_INT, written=2**32 - 1)))
