"""Every field of the wire has a limit, and numbers stay within what their readers can count to."""

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from core.errors import Invalid
from core.wire import limits
from core.wire.v1 import agent_pb2 as wire
from core.wire.v1 import options_pb2

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


@pytest.mark.parametrize("name", sorted(wire.DESCRIPTOR.message_types_by_name))
def test_every_field_of_the_wire_is_bounded(name: str) -> None:
    message = wire.DESCRIPTOR.message_types_by_name[name]
    assert [field.full_name for field in message.fields if not is_bounded(field)] == []


def is_bounded(field: FieldDescriptor) -> bool:
    limit = field.GetOptions().Extensions
    is_text = field.type in {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES}
    has_length = bool(limit[options_pb2.max_len])  # ty: ignore[invalid-argument-type]
    has_items = bool(limit[options_pb2.max_items])  # ty: ignore[invalid-argument-type]
    return (has_items or not field.is_repeated) and (has_length or not (is_text or is_map(field)))


def is_map(field: FieldDescriptor) -> bool:
    entry: Descriptor | None = field.message_type
    return entry is not None and entry.GetOptions().map_entry
