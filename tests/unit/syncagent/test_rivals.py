"""Two installations of Towline in one cluster: both are named, neither fights."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.spec.bundle import KubeObject
from core.spec.status import Phase
from tests.fakes.engine import Stand, config

KEY = ("", "ConfigMap", "prod", "a")


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    """A running engine, which has a service already."""
    made = Stand(tmp_path)
    await made.start()
    made.want("mine")
    await made.phase(Phase.HEALTHY)
    yield made
    await made.stop()


def foreign(name: str = "a", manager: str = "towline") -> KubeObject:
    """An object as the agent of another installation has applied it."""
    mark = {"f:metadata": {"f:labels": {"f:towline.dev/service": {}}}}
    entry = {"manager": manager, "operation": "Apply", "fieldsV1": mark}
    notes = {
        "towline.dev/service-name": "theirs",
        "towline.dev/object": f"ConfigMap./prod/{name}",
    }
    meta = {
        "name": name,
        "namespace": "prod",
        "labels": {"towline.dev/service": "other-id"},
        "annotations": notes,
        "managedFields": [entry],
    }
    return config(name) | {"metadata": meta, "data": {"key": "theirs"}}


async def test_objects_of_another_installation_are_not_taken_over(stand: Stand) -> None:
    """Both services are named with what to do; once it is given up, it is applied."""
    stand.cluster.put(foreign())
    await stand.clock.advance(1)
    stand.want("mine", "a")
    status = await stand.phase(Phase.FAILED)
    message = status.problems[0].message
    assert (
        "theirs (other-id) of another Towline installation; service s does not touch it" in message
    )
    assert stand.cluster.objects[KEY]["data"] == {"key": "theirs"}
    stand.cluster.drop(KEY)
    await stand.phase(Phase.HEALTHY)
    assert stand.cluster.objects[KEY]["data"] == {"key": "1"}


async def test_objects_taken_by_another_installation_are_left_to_it(stand: Stand) -> None:
    """It is said of our service, nothing is written; a removal leaves the object to the other."""
    stand.want("mine", "a")
    await stand.phase(Phase.HEALTHY)
    stand.cluster.calls.clear()
    stand.cluster.put(foreign())
    status = await stand.phase(Phase.FAILED)
    assert "another Towline installation" in status.problems[0].message
    await stand.clock.advance(300)
    assert stand.cluster.count("apply") == 0
    stand.want("mine")
    await stand.phase(Phase.HEALTHY)
    assert stand.cluster.objects[KEY]["data"] == {"key": "theirs"}


async def test_a_mark_that_somebody_edited_is_put_right(stand: Stand) -> None:
    """Only what an agent applied is a claim; all else is drift."""
    stand.want("mine", "a")
    await stand.phase(Phase.HEALTHY)
    stand.cluster.put(foreign(manager="kubectl"))
    await stand.until(lambda: stand.cluster.objects[KEY]["data"] == {"key": "1"})
