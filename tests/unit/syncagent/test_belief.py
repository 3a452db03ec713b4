"""Desired state on disk after the operator has changed which keys count."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.errors import Invalid
from core.identity import local_id
from core.sealing import SealingKey, seal
from core.spec.desired import BundleSpec, Desired
from core.spec.input_checks import CheckResult, InputKind
from core.spec.objects import ObjectRef
from core.spec.statements.attestation import (
    AttestationStatement,
    SignedSource,
    Signer,
    TrustedKeys,
    read_public_keys,
)
from core.spec.status import StageTimes, SyncStatus
from core.spec.sync import Removal, SyncOptions
from syncagent.autonomy.admission import DesiredStateAdmission, StoredStateCheck
from syncagent.autonomy.inputs import InputVerifier
from syncagent.autonomy.policy import SourcePolicy
from syncagent.state.database import Database
from syncagent.state.store import SqliteStateStore

DIGEST = "sha256:" + "0" * 64
SIGNER = Signer(Ed25519PrivateKey.generate())
SOURCE = SignedSource("https://git/x", "web", "c0", "d0")
OWN = local_id("cluster", "own")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    one = Database(tmp_path / "agent.db")
    yield one
    one.close()


def spec(name: str, **more) -> BundleSpec:
    return BundleSpec(name, "prod", DIGEST, 10, **more)


def signed(signer: Signer) -> BundleSpec:
    statement = AttestationStatement(DIGEST, (SOURCE,), "raw")
    return spec("signed", attestation=signer.sign(statement))


def trust(*signers: Signer) -> TrustedKeys:
    return TrustedKeys(key for one in signers for key in read_public_keys(one.public_pem))


def kept(database: Database, belief: StoredStateCheck) -> tuple[set[str], bool]:
    """Services believed after a start, and whether the cluster is searched."""
    memory = SqliteStateStore(database, belief.check)
    known = {one.desired.service_id for one in memory.load_services()}
    return known, memory.fresh


def remember(database: Database, key: SealingKey) -> None:
    memory = SqliteStateStore(database)
    memory.mark_recovered()
    box = seal(key.public, "boxed", "pw", "1", b"hunter2")
    attested = signed(SIGNER).attestation
    for one in (
        Desired("signed", 1, signed(SIGNER)),
        Desired("boxed", 1, spec("boxed", secrets=(box,), attestation=attested)),
        Desired("unsigned", 1, spec("unsigned")),
        Desired(OWN, 1, spec("own")),
    ):
        memory.save_desired_state(one, StageTimes())


@pytest.mark.parametrize(
    ("trusted", "new_key", "defines", "expected"),
    [
        (trust(), False, True, {"signed", "boxed", "unsigned", OWN}),
        (trust(SIGNER), False, True, {"signed", "boxed", OWN}),
        (trust(Signer(Ed25519PrivateKey.generate())), False, True, {OWN}),
        (trust(), True, True, {"signed", "unsigned", OWN}),
        (trust(), False, False, {"signed", "boxed", "unsigned"}),
    ],
    ids=["nothing changed", "a key", "another key", "the agent's key is lost", "managed again"],
)
def test_stored_services_that_no_longer_verify_are_dropped(
    database: Database, trusted: TrustedKeys, new_key: bool, defines: bool, expected: set[str]
) -> None:
    """The hub sends it again, since the agent no longer reports it as stored.

    Until then every start searches the cluster for owned objects.
    """
    key = SealingKey.generate()
    remember(database, key)
    belief = StoredStateCheck(
        InputVerifier(trusted, defines=defines), SealingKey.generate() if new_key else key
    )
    dropped = len(expected) < 4
    assert kept(database, belief) == (expected, dropped)
    assert kept(database, belief) == (expected, dropped)


def test_a_service_that_was_applied_from_a_bundle_no_longer_believed_is_dropped(
    database: Database,
) -> None:
    """The applied bundle is the base of healing: it must verify as well."""
    memory = SqliteStateStore(database)
    memory.save_desired_state(Desired("s", 1, spec("s")), StageTimes())
    memory.save_apply_intent(Desired("s", 1, spec("s")), [])
    memory.save_desired_state(Desired("s", 2, signed(SIGNER)), StageTimes())
    belief = StoredStateCheck(InputVerifier(trust(SIGNER)), SealingKey.generate())
    assert kept(database, belief)[0] == set()


class Desires:
    """Records admitted desired state and refusals."""

    def __init__(self) -> None:
        self.taken: list[Desired] = []
        self.refused: list[SyncStatus] = []

    def desire(self, desired: Desired) -> None:
        self.taken.append(desired)

    def status(self, status: SyncStatus) -> None:
        self.refused.append(status)


@pytest.mark.parametrize("trusted", [trust(), trust(SIGNER)], ids=["any", "signed only"])
def test_an_unsigned_removal_confirms_nothing_where_signatures_count(trusted: TrustedKeys) -> None:
    """Ordinary objects go all the same; what is precious is to be agreed to in the cluster."""
    desires: Any = Desires()
    claim = ObjectRef("", "v1", "PersistentVolumeClaim", "prod", "data")
    removal = Desired("s", 2, removal=Removal.CASCADE, confirmed=(claim,))
    DesiredStateAdmission(desires, InputVerifier(trusted), desires).desire(removal)
    (taken,) = desires.taken
    assert taken.removal is Removal.CASCADE and not desires.refused
    assert taken.confirmed == (() if trusted else (claim,))


@pytest.mark.parametrize("trusted", [trust(), trust(SIGNER)], ids=["any", "signed only"])
def test_unsigned_options_let_no_more_objects_go_where_signatures_count(
    trusted: TrustedKeys,
) -> None:
    """Neither confirmed prunes nor a raised budget; a stricter budget is kept."""
    desires: Any = Desires()
    claim = ObjectRef("", "v1", "PersistentVolumeClaim", "prod", "data")
    for sequence, budget in enumerate((1_000_000, 3, 0), 1):
        options = SyncOptions(deletion_budget=budget)
        spec = replace(signed(SIGNER), options=options)
        word = Desired("s", sequence, spec, confirmed=(claim,))
        DesiredStateAdmission(desires, InputVerifier(trusted), desires).desire(word)
    assert not desires.refused
    assert [one.agreed for one in desires.taken] == 3 * [set() if trusted else {claim.key}]
    budgets = [one.spec.options.deletion_budget for one in desires.taken]
    assert budgets == ([10, 3, 0] if trusted else [1_000_000, 3, 0])


def test_bundles_signed_without_a_repository_match_no_listed_source() -> None:
    """An API user can have any bundle stored and signed: only a list of sources refuses that."""
    raw = SIGNER.sign(AttestationStatement(DIGEST, ()))
    word = Desired("s", 1, spec("s", attestation=raw))
    for sources, count in ((["*=https://git/x"], 0), ([], 1)):
        desires: Any = Desires()
        policy = SourcePolicy.of(sources)
        DesiredStateAdmission(desires, InputVerifier(trust(SIGNER), policy), desires).desire(word)
        assert len(desires.taken) == count


@pytest.mark.parametrize(
    ("source", "taken"),
    [
        ("prod=https://git/x", True),
        ("*=https://git/x.git/#web", True),
        ("prod=https://git/x#we", False),
        ("prod=https://git/x#web/shop", False),
        ("prod=https://git/y", False),
        ("test=https://git/x", False),
    ],
)
def test_a_signed_bundle_of_a_place_that_is_not_listed_is_refused(source: str, taken: bool) -> None:
    """Told now or kept on disk: the signature counts for where the bundle is from as well."""
    desires: Any = Desires()
    sources = SourcePolicy.of([source])
    one = Desired("s", 1, signed(SIGNER))
    DesiredStateAdmission(desires, InputVerifier(trust(SIGNER), sources), desires).desire(one)
    assert bool(desires.taken) is taken
    belief = StoredStateCheck(InputVerifier(trust(SIGNER), sources), SealingKey.generate())
    if taken:
        belief.check(one)
        return
    assert "autonomy.sources" in desires.refused[0].problems[0].message
    with pytest.raises(Invalid, match=r"autonomy\.sources"):
        belief.check(one)


VALUES = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("more", "values", "policy", "problem"),
    [
        ((), "", (), ""),
        ((replace(SOURCE, path="base"),), "", (), "folder base"),
        ((replace(SOURCE, url="https://git/evil"),), "", (), "https://git/evil"),
        ((SignedSource("https://charts", "redis", "1", "sha256:0"),), "", (), ""),
        ((SignedSource("https://charts", "evil", "1", "sha256:0"),), "", (), "folder evil"),
        ((SignedSource("oci://evil", "redis", "1", "sha256:0"),), "", (), "oci://evil"),
        ((), VALUES, (), "values of the API"),
        ((), VALUES, ("sha256:" + "b" * 64,), "values of the API"),
        ((), VALUES, (VALUES,), ""),
        ((), VALUES, ("*",), ""),
    ],
)
def test_every_input_of_a_signed_bundle_must_be_listed(
    more: tuple[SignedSource, ...], values: str, policy: tuple[str, ...], problem: str
) -> None:
    """Further sources, charts, and values that come from the API."""
    desires: Any = Desires()
    sources = SourcePolicy.of(["prod=https://git/x#web", "*=https://charts#redis"], policy)
    statement = AttestationStatement(DIGEST, (SOURCE, *more), "raw", values=values)
    one = Desired("s", 1, spec("s", attestation=SIGNER.sign(statement)))
    DesiredStateAdmission(desires, InputVerifier(trust(SIGNER), sources), desires).desire(one)
    assert bool(desires.taken) is not bool(problem)
    if problem:
        assert problem in desires.refused[0].problems[0].message


@pytest.mark.parametrize("text", ["prod", "=https://git/x", "prod=", "prod=#web"])
def test_a_source_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(Invalid, match="NAMESPACE=URL"):
        SourcePolicy.of([text])


def test_the_id_of_a_service_of_the_cluster_exempts_no_bundle_of_the_control_plane() -> None:
    """Only a cluster that defines services itself has such services."""
    unsigned = Desired(OWN, 1, spec("own"))
    desires: Any = Desires()
    inputs = InputVerifier(trust(SIGNER))
    assert not DesiredStateAdmission(desires, inputs, desires).admit(unsigned, frozenset())
    with pytest.raises(Invalid, match="is not signed"):
        inputs.check(unsigned)
    assert InputVerifier(trust(SIGNER), defines=True).check(unsigned) == ()


def test_the_agent_tells_which_key_signed_a_bundle_and_its_sources() -> None:
    (bundle, source) = InputVerifier(trust(SIGNER)).check(Desired("s", 1, signed(SIGNER)))
    assert (bundle.kind, bundle.subject, bundle.result) == (
        InputKind.BUNDLE,
        DIGEST,
        CheckResult.VERIFIED,
    )
    assert bundle.reason == f"signed by the key {SIGNER.key_id}"
    assert (source.subject, source.result) == (str(SOURCE), CheckResult.UNVERIFIED)
    (unsigned,) = InputVerifier(trust()).check(Desired("s", 1, spec("s")))
    assert unsigned.result is CheckResult.UNVERIFIED


def test_a_refusal_is_reported_as_the_agents_verdict() -> None:
    desires: Any = Desires()
    admission = DesiredStateAdmission(desires, InputVerifier(trust(SIGNER)), desires)
    admission.desire(Desired("s", 1, spec("s")))
    (status,) = desires.refused
    (check,) = status.inputs.checks
    assert (status.inputs.digest, check.result) == (DIGEST, CheckResult.REFUSED)
    assert check.reason == status.problems[0].message
