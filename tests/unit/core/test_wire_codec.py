"""Values that both ends of a link share reach the other end whole."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.sealing import SealedSecret
from core.spec.attestation import Attestation
from core.spec.facts import ClusterFacts, DeprecatedApi
from core.spec.health import FieldCondition, HealthRule
from core.spec.objects import FieldChange, ObjectRef
from core.spec.plan import PlannedAction, PlannedChange
from core.spec.sync import IgnoredDifference, SyncOptions
from core.spec.verification import MetricCheck, Verification, VerificationResult
from core.wire import codec, limits
from core.wire.v1 import agent_pb2 as pb


@dataclass(frozen=True)
class Pair:
    """The codec of one value; `renamed`: fields with another name in the message."""

    value: type[Any]
    message: type[Message]
    to_message: Callable[[Any], Any]
    from_message: Callable[[Any], Any]
    renamed: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.value.__name__


REPORTED = (
    Pair(ObjectRef, pb.ObjectRef, codec.object_ref_to_message, codec.object_ref_from_message),
    Pair(
        FieldChange, pb.FieldChange, codec.field_change_to_message, codec.field_change_from_message
    ),
    Pair(
        PlannedChange,
        pb.PlannedChange,
        codec.planned_change_to_message,
        codec.planned_change_from_message,
    ),
    Pair(
        DeprecatedApi,
        pb.DeprecatedApi,
        codec.deprecated_api_to_message,
        codec.deprecated_api_from_message,
    ),
    Pair(
        ClusterFacts,
        pb.ClusterFacts,
        codec.cluster_facts_to_message,
        codec.cluster_facts_from_message,
    ),
)
PAIRS = (
    *REPORTED,
    Pair(
        VerificationResult,
        pb.Verified,
        codec.verification_result_to_message,
        codec.verification_result_from_message,
    ),
    Pair(
        MetricCheck, pb.MetricCheck, codec.metric_check_to_message, codec.metric_check_from_message
    ),
    Pair(
        Verification,
        pb.Verification,
        codec.verification_to_message,
        codec.verification_from_message,
        {"soak_s": "soak_seconds"},
    ),
    Pair(
        IgnoredDifference,
        pb.IgnoredDifference,
        codec.ignored_difference_to_message,
        codec.ignored_difference_from_message,
    ),
    Pair(
        FieldCondition,
        pb.FieldCondition,
        codec.field_condition_to_message,
        codec.field_condition_from_message,
    ),
    Pair(HealthRule, pb.HealthRule, codec.health_rule_to_message, codec.health_rule_from_message),
    Pair(
        SyncOptions, pb.SyncOptions, codec.sync_options_to_message, codec.sync_options_from_message
    ),
    Pair(Attestation, pb.Attestation, codec.attestation_to_message, codec.attestation_from_message),
    Pair(
        SealedSecret,
        pb.SealedSecret,
        codec.sealed_secret_to_message,
        codec.sealed_secret_from_message,
    ),
)
ENUMS = (
    codec.PHASE,
    codec.JOB_PHASE,
    codec.REMOVAL,
    codec.DRIFT_POLICY,
    codec.HEALTH,
    codec.PLANNED_ACTION,
    codec.COMPARISON,
)
SHORT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)
LONG = st.sampled_from(["x", "ä", "\N{PILE OF POO}", "\0"]).map(lambda text: text * 3000)


def values(hint: Any, text: st.SearchStrategy[str] = SHORT) -> st.SearchStrategy[Any]:
    """Any value of a type, with every field of a dataclass drawn."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return st.one_of(st.none(), *(values(arg, text) for arg in args if arg is not NoneType))
    if origin is tuple:
        return st.lists(values(args[0], text), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(values(args[0], text), values(args[1], text), max_size=2)
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return st.builds(hint, **{one.name: values(hints[one.name], text) for one in fields(hint)})
    if issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    simple: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.integers(0, 10_000),
        float: st.floats(allow_nan=False),
        bytes: st.binary(max_size=4),
        str: text,
    }
    return simple[hint]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@given(data=st.data())
def test_a_value_comes_back_from_its_message(pair: Pair, data: st.DataObject) -> None:
    value = data.draw(values(pair.value))
    sent = pair.to_message(value).SerializeToString()
    assert pair.from_message(pair.message.FromString(sent)) == value


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_a_message_has_every_field_of_its_value(pair: Pair) -> None:
    names = {pair.renamed.get(one.name, one.name) for one in fields(pair.value)}
    missing = names - set(pair.message.DESCRIPTOR.fields_by_name)
    assert not missing, f"{pair.message.DESCRIPTOR.name} lacks {sorted(missing)}"


@pytest.mark.parametrize("pair", REPORTED, ids=str)
@given(data=st.data())
def test_a_reported_value_is_cut_to_the_limits_and_has_no_nul(
    pair: Pair, data: st.DataObject
) -> None:
    message = pair.to_message(data.draw(values(pair.value, LONG)))
    limits.check(message)
    assert "\\x00" not in repr(pair.from_message(message))


def test_long_lists_of_reported_values_are_cut() -> None:
    change = FieldChange("/a", "1", "2")
    ref = ObjectRef("", "v1", "ConfigMap", "shop", "a")
    planned = PlannedChange(ref, PlannedAction.UPDATE, (change,) * 40)
    limits.check(codec.planned_change_to_message(planned))
    api = DeprecatedApi("", "v1", "x", "1.25")
    facts = ClusterFacts(api_versions=("v1",) * 2000, deprecated=(api,) * 2000)
    limits.check(codec.cluster_facts_to_message(facts))


@pytest.mark.parametrize("enum", ENUMS, ids=lambda enum: enum.values.__name__)
def test_every_member_of_an_enum_comes_back(enum: codec.EnumCodec[Any]) -> None:
    for member in enum.values:
        assert enum.from_message(enum.to_message(member)) is member
    assert enum.from_message(0) is None and enum.from_message(999) is None


def test_what_this_version_does_not_know_is_left_out_or_refused() -> None:
    assert codec.planned_change_from_message(pb.PlannedChange()) is None
    assert codec.health_rule_from_message(pb.HealthRule()) is None
    options = pb.SyncOptions(health_rules=[pb.HealthRule()])
    assert codec.sync_options_from_message(options).health_rules == ()
    with pytest.raises(Invalid, match="comparison"):
        codec.verification_from_message(pb.Verification(metric=pb.MetricCheck()))


def test_agents_verify_for_a_week_at_most() -> None:
    limits.check(codec.verification_to_message(Verification(30 * 86_400)))
