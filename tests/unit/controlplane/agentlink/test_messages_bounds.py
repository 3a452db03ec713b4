"""Reports of an agent become values that the store and the API can hold."""

from datetime import UTC, datetime

import pytest

from controlplane.agents.link import messages
from core.spec.reports.drift import DriftFound
from core.spec.reports.inventory import InventoryChange
from core.spec.status import SyncStatus
from core.wire.report_codec import report_from_message
from core.wire.v1 import agent_pb2 as wire

EPOCH = datetime.fromtimestamp(0, UTC)


@pytest.mark.parametrize("millis", [-(2**63), -1, 0])
def test_no_time_is_the_beginning(millis: int) -> None:
    assert report_from_message(wire.Report(at_ms=millis)).at == EPOCH


@pytest.mark.parametrize("millis", [2**62, 2**63 - 1, 253_402_300_800_000])
def test_times_beyond_all_calendars_count_as_the_last(millis: int) -> None:
    """In the report itself, and in each stage of a status."""
    status = wire.ServiceStatus(received_ms=millis, healthy_ms=millis)
    report = report_from_message(wire.Report(at_ms=millis, status=status))
    assert isinstance(report.body, SyncStatus)
    times = {report.at, report.body.stamps.received, report.body.stamps.healthy}
    assert times == {datetime(2100, 1, 1, tzinfo=UTC)}


def test_an_ordinary_time_is_kept() -> None:
    at = datetime(2026, 1, 31, 12, 0, 0, 123_000, tzinfo=UTC)
    assert report_from_message(wire.Report(at_ms=int(at.timestamp() * 1000))).at == at


def test_nul_in_a_clusters_texts_is_replaced() -> None:
    """A container may end with any message; its report must still be kept."""
    problem = wire.Problem(object=wire.ObjectRef(kind="Pod", name="web"), message="a\0b")
    status = report_from_message(wire.Report(status=wire.ServiceStatus(problems=[problem]))).body
    assert isinstance(status, SyncStatus)
    assert str(status.problems[0]) == "Pod web: a�b"
    present = [wire.Component(message="\0")]
    inventory = report_from_message(wire.Report(inventory=wire.Inventory(present=present))).body
    assert isinstance(inventory, InventoryChange)
    assert inventory.present[0].message == "�"
    drift = report_from_message(wire.Report(drift=wire.Drift(manager="\0", paths=["\0"]))).body
    assert isinstance(drift, DriftFound)
    assert (drift.manager, drift.paths) == ("�", ("�",))


def test_nul_in_a_greeting_is_replaced() -> None:
    """Agents that come at once are kept together: what one says must not fail all others."""
    deprecated = [wire.DeprecatedApi(group="\0", version="\0", resource="\0", removed_in="\0")]
    facts = wire.ClusterFacts(
        kubernetes_version="\0", api_versions=["\0"], deprecated=deprecated, distribution="\0"
    )
    greeting = messages.hello_from_message(
        wire.Hello(instance_id="\0", agent_version="\0", facts=facts)
    )
    assert "\0" not in f"{greeting!r}".replace("\\x00", "\0")


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("ConfigMap shop/X: its name must be small", "ConfigMap shop/X: its name must be small"),
        ("ConfigMap shop/X has no kind", "ConfigMap shop/X has no kind"),
        ("is refused", "ConfigMap shop/X: is refused"),
        ("ConfigMap shop/Xyz is in the way", "ConfigMap shop/X: ConfigMap shop/Xyz is in the way"),
    ],
)
def test_the_object_of_a_problem_is_named_once(message: str, shown: str) -> None:
    ref = wire.ObjectRef(kind="ConfigMap", namespace="shop", name="X")
    problem = wire.Problem(object=ref, message=message)
    status = report_from_message(wire.Report(status=wire.ServiceStatus(problems=[problem]))).body
    assert isinstance(status, SyncStatus)
    assert [*map(str, status.problems)] == [shown]
