"""Signed orders: each belongs to one cluster, service, content, generation and period."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.errors import Invalid
from core.spec.bundle import Attestation
from core.spec.statements.attestation import AttestationStatement, Signer, TrustedKeys
from core.spec.statements.orders import (
    ALL_POWERS,
    CLOCK_SKEW,
    VALID_FOR,
    OrderRequest,
    OrderSigner,
    Power,
    require_powers,
    verify_order,
)
from core.spec.statements.signing_keys import SigningIdentity, follow_rotations, public_key, rotate
from core.wire.orders import order_for_command, order_for_desired
from core.wire.v1 import agent_pb2 as pb

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SIGNER = Signer(Ed25519PrivateKey.generate())
THIEF = Signer(Ed25519PrivateKey.generate())
REQUEST = OrderRequest("cluster", "service", 7, "sha256:" + "0" * 64)


def keys(signer: Signer, *others: Signer) -> TrustedKeys:
    """The keys of an agent that has pinned the first, and trusts the bundles of the others."""
    trusted = TrustedKeys((public_key(other.public_raw) for other in others), required=True)
    trusted.pin(public_key(signer.public_raw))
    return trusted


def signed(signer: Signer = SIGNER, powers: tuple[Power, ...] = ALL_POWERS) -> Attestation:
    (order,) = OrderSigner(signer, powers).sign([REQUEST], NOW)
    return order


def test_an_order_opens_with_the_powers_of_its_signer() -> None:
    assert verify_order(keys(SIGNER), signed(), REQUEST, NOW) == set(ALL_POWERS)
    few = signed(powers=(Power.JOBS,))
    assert verify_order(keys(SIGNER), few, REQUEST, NOW) == {"jobs"}


@pytest.mark.parametrize(
    "change",
    [
        {"cluster": "other"},
        {"subject": "other"},
        {"generation": 8},
        {"content": "sha256:" + "1" * 64},
    ],
)
def test_an_order_for_something_else_is_refused(change: dict[str, object]) -> None:
    (name,) = change
    expected = replace(REQUEST, **change)
    with pytest.raises(Invalid, match=f"signed for {name}"):
        verify_order(keys(SIGNER), signed(), expected, NOW)


def test_an_expired_order_is_refused_with_its_end_and_key() -> None:
    late = NOW + VALID_FOR + CLOCK_SKEW + timedelta(seconds=1)
    with pytest.raises(Invalid, match=rf"expired at 2026-01-01 00:15:00 \(key {SIGNER.key_id}\)"):
        verify_order(keys(SIGNER), signed(), REQUEST, late)
    with pytest.raises(Invalid, match="check the clock"):
        verify_order(keys(SIGNER), signed(), REQUEST, NOW - CLOCK_SKEW - timedelta(seconds=1))


def test_another_key_is_refused_with_the_key_expected_and_got() -> None:
    with pytest.raises(Invalid) as error:
        verify_order(keys(SIGNER), signed(THIEF), REQUEST, NOW)
    assert SIGNER.key_id in error.value.message and THIEF.key_id in error.value.message


def test_a_key_that_is_trusted_for_bundles_orders_nothing() -> None:
    """`autonomy.trusted_keys`: agents that render sign bundles, and command nobody."""
    agent = Signer(Ed25519PrivateKey.generate())
    trusted = keys(SIGNER, agent)
    assert trusted.verify("sha256:d", agent.sign(AttestationStatement("sha256:d", ())))
    with pytest.raises(Invalid, match="does not trust") as error:
        verify_order(trusted, signed(agent), REQUEST, NOW)
    assert f"expects {SIGNER.key_id}" in error.value.message
    assert error.value.message.count(agent.key_id) == 1


def test_a_statement_about_a_bundle_is_no_order() -> None:
    """One key signs both: the prefix tells them apart."""
    statement = SIGNER.sign(AttestationStatement(REQUEST.content, ()))
    with pytest.raises(Invalid, match="signature"):
        verify_order(keys(SIGNER), statement, REQUEST, NOW)
    order = signed()
    with pytest.raises(Invalid, match="signature"):
        keys(SIGNER).verify(REQUEST.content, order)


@pytest.mark.parametrize(
    "change",
    [{"allows": ["jobs", 1]}, {"generation": True}, {"version": 2}, {"more": 1}, {"issued": "0"}],
)
def test_an_order_of_another_form_is_refused(change: dict[str, object]) -> None:
    raw = orjson.loads(signed().statement) | change
    data = orjson.dumps(raw, option=orjson.OPT_SORT_KEYS)
    given = SIGNER.sign_bytes(b"towline order 1\n", data)
    with pytest.raises(Invalid, match="form"):
        verify_order(keys(SIGNER), given, REQUEST, NOW)


def test_a_missing_order_or_power_is_refused() -> None:
    with pytest.raises(Invalid, match="not signed"):
        verify_order(keys(SIGNER), None, REQUEST, NOW)
    with pytest.raises(Invalid, match=r"jobs, removals .*git\.signing\.orders"):
        require_powers(frozenset({"upgrades"}), (Power.REMOVALS, Power.JOBS), SIGNER.key_id)


def test_a_field_of_a_newer_version_is_covered_too() -> None:
    """An older agent that does not know a field still verifies the message with it."""
    message = pb.Desired(service_id="s", sequence=1, removal=pb.REMOVAL_ORPHAN)
    plain = order_for_desired("c", message)
    newer = pb.Desired.FromString(message.SerializeToString() + b"\xd2\x3e\x01x")
    assert order_for_desired("c", newer).content != plain.content
    again = pb.Desired.FromString(newer.SerializeToString())
    assert order_for_desired("c", again) == order_for_desired("c", newer)


def test_encrypted_values_and_the_order_itself_are_not_covered() -> None:
    """They differ at each delivery; the digest covers the bundle."""
    message = pb.Desired(service_id="s", sequence=1, spec=pb.ServiceSpec(digest="d"))
    first = order_for_desired("c", message)
    message.spec.secrets.add(name="n")
    message.spec.bundle = b"x"
    message.order.key_id = "k"
    assert order_for_desired("c", message) == first
    message.spec.digest = "e"
    assert order_for_desired("c", message) != first
    command = pb.Command(id="i", run_job=pb.RunJob(namespace="n"))
    assert order_for_command("c", command).generation == 0


def identity(*signers: Signer) -> SigningIdentity:
    chain = tuple(rotate(old, new) for old, new in zip(signers, signers[1:], strict=False))
    return SigningIdentity(signers[-1].public_raw, chain)


def test_a_chain_of_rotations_is_followed_from_every_key_in_it() -> None:
    first, second, third = (Signer(Ed25519PrivateKey.generate()) for _ in range(3))
    present = identity(first, second, third)
    for signer in (first, second, third):
        assert follow_rotations(signer.key_id, present).public_bytes_raw() == third.public_raw


def test_a_key_without_a_chain_is_refused_with_both_key_ids() -> None:
    with pytest.raises(Invalid) as error:
        follow_rotations(SIGNER.key_id, identity(THIEF))
    assert SIGNER.key_id in error.value.message and THIEF.key_id in error.value.message


def test_a_forged_rotation_is_refused() -> None:
    """The thief signs with their own key that they follow ours."""
    genuine = rotate(SIGNER, THIEF)
    forged = THIEF.sign_bytes(b"towline rotation 1\n", genuine.statement)
    named = replace(forged, key_id=SIGNER.key_id)
    for chain in ((forged,), (named,)):
        with pytest.raises(Invalid):
            follow_rotations(SIGNER.key_id, SigningIdentity(THIEF.public_raw, chain))
