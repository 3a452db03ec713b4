"""Desired state survives the wire and the disk whole, or is known to be damaged."""

import base64
import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.spec.desired import Desired
from core.spec.health import HealthState
from core.spec.status import StageTimes
from core.wire.codec import desired_from_message
from core.wire.v1 import agent_pb2 as pb
from syncagent.state.database import Database
from syncagent.state.desired import dump_desired, load_desired
from syncagent.state.store import SqliteStateStore

OBJECT = {"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "a", "name": "b"}


def make_desired(text: str = "x", data: bytes = b"\x00\xff", number: int = 7) -> Desired:
    """A service with every field that the wire has."""
    condition = pb.FieldCondition(pointer="/status/x", any_of=[text])
    rule = pb.HealthRule(kind="Db", health=pb.HEALTH_FAILED, conditions=[condition], message="/m")
    odd = pb.HealthRule(kind="Db", conditions=[condition])
    spec = pb.ServiceSpec(
        name=text,
        namespace="shop",
        digest="sha256:" + "0" * 64,
        bundle_bytes=number,
        commit="c" * 40,
        options=pb.SyncOptions(
            fail_on_conflict=True,
            replace_immutable=True,
            drift=pb.DRIFT_POLICY_REPORT,
            namespace_labels={"a": text},
            ignored=[pb.IgnoredDifference(kind="X", pointers=["/a"], managers=[text])],
            health_rules=[rule, odd],
            wave_timeout_s=number,
            deletion_budget=number,
        ),
        attestation=pb.Attestation(key_id="sha256:k", statement=data, signature=data),
        secrets=[pb.SealedSecret(name="n", version="v", box=data)],
    )
    confirmed = [pb.ObjectRef(**OBJECT)]
    return desired_from_message(
        pb.Desired(service_id="s", sequence=number, spec=spec, confirmed=confirmed)
    )


@given(st.text(), st.binary(), st.integers(0, 80_000))
def test_every_field_of_the_desired_state_round_trips(text: str, data: bytes, number: int) -> None:
    one = make_desired(text, data, number)
    assert load_desired(dump_desired(one)) == one


def test_a_removal_keeps_the_deletions_that_were_confirmed() -> None:
    word = pb.Desired(service_id="s", sequence=2, removal=pb.REMOVAL_CASCADE)
    word.confirmed.add(**OBJECT)
    one = desired_from_message(word)
    assert load_desired(dump_desired(one)) == one and one.agreed == {
        ("apps", "Deployment", "a", "b")
    }


def stored(message: bytes) -> str:
    """A message as another version of the agent writes it."""
    body = base64.b64encode(message)
    return hashlib.sha256(body).hexdigest() + body.decode()


def test_a_service_that_is_known_from_labels_is_kept() -> None:
    """Its objects were found in the cluster after the disk was lost."""
    found = Desired("s", 0)
    assert load_desired(dump_desired(found)) == found


def test_desired_state_is_parsed_from_the_wire() -> None:
    """A conflict that is an error is not forced; a rule of no known health is left out."""
    spec = make_desired().spec
    assert spec is not None and spec.attestation is not None
    assert spec.options.fail_on_conflict
    assert [rule.health for rule in spec.options.health_rules] == [HealthState.FAILED]
    assert [ref.name for ref in make_desired().confirmed] == ["b"]
    removal = desired_from_message(
        pb.Desired(service_id="s", sequence=1, removal=pb.REMOVAL_ORPHAN)
    )
    assert load_desired(dump_desired(removal)) == removal


@given(st.integers(min_value=0))
def test_no_altered_character_is_acted_upon(place: int) -> None:
    text = dump_desired(make_desired())
    place %= len(text)
    spoilt = text[:place] + ("y" if text[place] == "x" else "x") + text[place + 1 :]
    with pytest.raises(Invalid, match="damaged"):
        load_desired(spoilt)


def test_a_damaged_service_is_dropped_and_its_objects_are_looked_for(tmp_path: Path) -> None:
    """The others stay; what the dropped one has in the cluster is found by its marks."""
    database = Database(tmp_path / "agent.db")
    memory = SqliteStateStore(database)
    memory.mark_recovered()
    memory.save_desired_state(make_desired(), StageTimes())
    memory.save_desired_state(Desired("other", 1, make_desired().spec), StageTimes())
    with database.transaction() as db:
        db.execute("UPDATE service SET desired = 'x' || desired WHERE id = 's'")
    assert [one.desired.service_id for one in memory.load_services()] == ["other"]
    assert memory.fresh
    database.close()


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_file_of_an_older_version_is_begun_anew(tmp_path: Path, version: int) -> None:
    """Its services come again from the control plane, its objects from the cluster."""
    database = Database(tmp_path / "agent.db")
    SqliteStateStore(database).mark_recovered()
    with database.transaction() as db:
        db.execute(f"PRAGMA user_version={version}")
    database.close()
    database = Database(tmp_path / "agent.db")
    assert SqliteStateStore(database).fresh
    database.close()


NEWER = pb.Desired(service_id="s", sequence=2, spec=pb.ServiceSpec(name="x"))
NEWER.verification.metric.query = "up"


@pytest.mark.parametrize(
    "message",
    [
        b"\xff\xff",
        pb.Desired(service_id="s", sequence=2).SerializeToString(),
        NEWER.SerializeToString(),
    ],
    ids=["no message", "unknown removal", "unknown comparison"],
)
def test_a_row_of_another_version_is_refused(message: bytes) -> None:
    """The row is dropped and the hub sends it again; the agent starts all the same."""
    with pytest.raises(Invalid, match="another version"):
        load_desired(stored(message))


@given(st.text())
def test_text_that_is_no_message_is_not_taken_for_ours(text: str) -> None:
    body = "{" + text
    with pytest.raises(Invalid, match="another version"):
        load_desired(hashlib.sha256(body.encode()).hexdigest() + body)
