"""The key that an agent pins when its cluster joins, and the orders that it then accepts."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.errors import Invalid
from core.spec.desired import Desired
from core.spec.statements.attestation import Signer, TrustedKeys
from core.spec.statements.orders import ALL_POWERS, CLOCK_SKEW, VALID_FOR, OrderSigner, Power
from core.spec.statements.signing_keys import SigningIdentity, rotate
from core.wire.codec import attestation_to_message, desired_from_message
from core.wire.orders import order_for_command, order_for_desired
from core.wire.v1 import agent_pb2 as pb
from syncagent.autonomy.installation import JoinedInstallation
from syncagent.link.orders import SignedOrders
from syncagent.state.database import Database
from syncagent.state.installation import InstallationFile
from syncagent.state.orders import SqliteOrderLedger
from tests.fakes.clock import FakeClock

FIRST, SECOND, THIRD, THIEF = (Signer(Ed25519PrivateKey.generate()) for _ in range(4))
CLUSTER = "cluster-1"
SHOP = pb.Fence(project="shop")


def identity(*signers: Signer) -> SigningIdentity:
    chain = tuple(rotate(old, new) for old, new in zip(signers, signers[1:], strict=False))
    return SigningIdentity(signers[-1].public_raw, chain)


class Agent:
    """State of an agent after its start: one folder, one setting."""

    def __init__(self, folder: Path, expected: str = "", cluster: str = "") -> None:
        self.trusted = TrustedKeys((), required=True)
        store = InstallationFile(folder / "signing-key.json")
        self.installation = JoinedInstallation(self.trusted, store, expected, cluster)

    def accepts(self, signer: Signer) -> bool:
        signed = signer.sign_bytes(b"test\n", b"statement")
        try:
            self.trusted.verify_pinned(b"test\n", signed, "the statement")
        except Invalid:
            return False
        return True


def test_the_fingerprint_of_joining_decides_over_the_first_key(tmp_path: Path) -> None:
    agent = Agent(tmp_path, FIRST.key_id)
    agent.installation.meet(identity(THIEF), CLUSTER)
    assert not agent.accepts(THIEF) and THIEF.key_id in agent.installation.problem
    assert FIRST.key_id in agent.installation.problem
    agent.installation.meet(identity(FIRST), CLUSTER)
    assert agent.accepts(FIRST) and agent.installation.problem == ""


def test_a_pin_survives_a_restart_and_refuses_another_key(tmp_path: Path) -> None:
    Agent(tmp_path).installation.meet(identity(FIRST), CLUSTER)
    agent = Agent(tmp_path)
    assert agent.accepts(FIRST), "known before the first connection of the new process"
    agent.installation.meet(identity(THIEF), CLUSTER)
    assert agent.accepts(FIRST) and not agent.accepts(THIEF)
    assert FIRST.key_id in agent.installation.problem
    kept = InstallationFile(tmp_path / "signing-key.json").load()
    assert kept is not None and THIEF.key_id in kept.problem, "the doctor reads it"


def test_an_agent_that_was_away_follows_two_rotations(tmp_path: Path) -> None:
    Agent(tmp_path, FIRST.key_id).installation.meet(identity(FIRST), CLUSTER)
    agent = Agent(tmp_path, FIRST.key_id)
    agent.installation.meet(identity(FIRST, SECOND, THIRD), CLUSTER)
    assert agent.accepts(THIRD) and not agent.accepts(FIRST) and not agent.accepts(SECOND)
    again = Agent(tmp_path, FIRST.key_id)
    assert again.accepts(THIRD), "the setting of joining names the first key for ever"
    again.installation.meet(identity(FIRST), CLUSTER)
    assert not again.accepts(FIRST), "no way back to a key that was replaced"


def test_another_fingerprint_in_the_settings_pins_again(tmp_path: Path) -> None:
    Agent(tmp_path, FIRST.key_id).installation.meet(identity(FIRST), CLUSTER)
    agent = Agent(tmp_path, SECOND.key_id)
    assert not agent.accepts(FIRST)
    agent.installation.meet(identity(SECOND), CLUSTER)
    assert agent.accepts(SECOND)


def test_another_name_of_this_cluster_is_refused(tmp_path: Path) -> None:
    """Else orders for another cluster would count here."""
    agent = Agent(tmp_path, FIRST.key_id)
    agent.installation.meet(identity(FIRST), CLUSTER)
    agent.installation.meet(identity(FIRST), "cluster-2")
    assert agent.installation.cluster_id == CLUSTER and "cluster-2" in agent.installation.problem


def test_a_damaged_pin_trusts_nobody(tmp_path: Path) -> None:
    (tmp_path / "signing-key.json").write_text("{}")
    with pytest.raises(Invalid, match=r"hub\.signing_key"):
        Agent(tmp_path)


class Admission:
    """Takes what passes, and the reasons of the rest."""

    def __init__(self) -> None:
        self.taken: list[Desired] = []
        self.reasons: list[str] = []
        self.refuses = ""

    def admit(self, desired: Desired, powers: frozenset[str]) -> bool:
        if self.refuses:
            self.reject(desired, self.refuses)
        else:
            self.taken.append(desired)
        return not self.refuses

    def reject(self, desired: Desired, reason: str) -> None:
        self.reasons.append(reason)


class World:
    """An agent with a pinned key, and an attacker between it and the control plane."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.admission = FakeClock(), Admission()
        self.database = Database(folder / "agent.db")
        agent = Agent(folder, FIRST.key_id, CLUSTER)
        agent.installation.meet(identity(FIRST), CLUSTER)
        ledger = SqliteOrderLedger(self.database)
        self.orders = SignedOrders(
            agent.installation, agent.trusted, ledger, self.admission, self.clock
        )

    def signed(
        self,
        message: pb.Desired,
        signer: Signer = FIRST,
        cluster: str = CLUSTER,
        powers: tuple[Power, ...] = ALL_POWERS,
    ) -> pb.Desired:
        request = order_for_desired(cluster, message)
        (order,) = OrderSigner(signer, powers).sign([request], self.clock.now())
        made = pb.Desired()
        made.CopyFrom(message)
        made.order.CopyFrom(attestation_to_message(order))
        return made

    def deliver(self, message: pb.Desired) -> str:
        """Delivers a message; the reason of its refusal, or empty."""
        before = len(self.admission.reasons)
        self.orders.desire(message, desired_from_message(message))
        return "".join(self.admission.reasons[before:])


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.database.close()


def service(generation: int, *, fence: pb.Fence | None = None, lifted: bool = False) -> pb.Desired:
    spec = pb.ServiceSpec(name="web", namespace="shop", digest=f"sha256:{generation:064}")
    return pb.Desired(service_id="s", sequence=generation, spec=spec, fence=fence, lifted=lifted)


def removal(generation: int, *, fence: pb.Fence | None = None) -> pb.Desired:
    return pb.Desired(service_id="s", sequence=generation, removal=pb.REMOVAL_CASCADE, fence=fence)


def test_an_older_generation_is_refused(world: World) -> None:
    old, new = world.signed(service(1)), world.signed(service(2))
    assert world.deliver(old) == world.deliver(new) == ""
    assert "generation 1" in world.deliver(old)
    assert world.deliver(new) == "", "the same again does no harm"


def test_a_refused_bundle_does_not_move_the_fence(world: World) -> None:
    """Else the next order would leave the fence without its power."""
    world.deliver(world.signed(service(1, fence=SHOP)))
    world.admission.refuses = "its bundle is not signed"
    assert world.deliver(world.signed(service(2))) == world.admission.refuses
    world.admission.refuses = ""
    assert "not allow fences" in world.deliver(world.signed(service(3), powers=()))
    assert world.deliver(world.signed(service(1, fence=SHOP))) == "", "1 is the newest accepted"


def test_a_removed_service_does_not_come_back_by_an_old_order(world: World) -> None:
    old = world.signed(service(1))
    assert world.deliver(old) == world.deliver(world.signed(removal(2))) == ""
    assert "generation 2" in world.deliver(old)


async def test_an_old_order_expires_before_its_generation_is_forgotten(world: World) -> None:
    old = world.signed(service(1))
    world.deliver(old)
    world.deliver(world.signed(removal(2)))
    await world.clock.advance((VALID_FOR + CLOCK_SKEW + timedelta(seconds=1)).total_seconds())
    other = pb.Desired(service_id="t", sequence=1, removal=pb.REMOVAL_CASCADE)
    world.deliver(world.signed(other))
    assert world.deliver(old) != ""
    await world.clock.advance(3600)
    world.deliver(world.signed(other))
    assert "expired" in world.deliver(old)


def test_an_order_for_another_cluster_or_service_is_refused(world: World) -> None:
    assert "for cluster" in world.deliver(world.signed(service(1), cluster="cluster-2"))
    moved = world.signed(service(1))
    moved.service_id = "t"
    assert "for subject" in world.deliver(moved)
    swapped = world.signed(service(1))
    swapped.spec.options.replace_immutable = True
    assert "for content" in world.deliver(swapped)


def test_an_unsigned_or_foreign_order_is_refused(world: World) -> None:
    assert "not signed" in world.deliver(service(1))
    reason = world.deliver(world.signed(service(1), THIEF))
    assert THIEF.key_id in reason and FIRST.key_id in reason
    assert world.admission.taken == []


@pytest.mark.parametrize(
    ("message", "power"),
    [
        (removal(2, fence=SHOP), "removals"),
        (service(2, fence=SHOP, lifted=True), "confirmations"),
        (service(2, fence=pb.Fence(project="other")), "fences"),
        (service(2), "fences"),
    ],
)
def test_an_act_needs_its_power(world: World, message: pb.Desired, power: str) -> None:
    """A render tier that signs only bundles: its own settings decide what else."""
    first = world.signed(service(1, fence=SHOP), powers=())
    assert world.deliver(first) == ""
    assert f"not allow {power}" in world.deliver(world.signed(message, powers=()))
    assert world.deliver(world.signed(message, powers=(Power(power),))) == ""


def test_a_service_that_left_its_fence_needs_no_power_again(world: World) -> None:
    world.deliver(world.signed(service(1, fence=SHOP)))
    world.deliver(world.signed(service(2)))
    assert world.deliver(world.signed(service(3), powers=())) == ""


def test_only_an_orphan_is_removed_without_its_fence(world: World) -> None:
    """A cascade without the fence would delete as the agent itself."""
    world.deliver(world.signed(service(1, fence=SHOP)))
    removals = (Power.REMOVALS,)
    assert "not allow fences" in world.deliver(world.signed(removal(2), powers=removals))
    orphan = pb.Desired(service_id="s", sequence=2, removal=pb.REMOVAL_ORPHAN)
    assert world.deliver(world.signed(orphan, powers=removals)) == ""
    back = world.signed(service(3), powers=())
    assert "not allow fences" in world.deliver(back), "the way round by an orphan"


def test_options_that_recreate_or_label_need_a_power(world: World) -> None:
    for options in (
        pb.SyncOptions(replace_immutable=True),
        pb.SyncOptions(namespace_labels={"pod-security.kubernetes.io/enforce": "privileged"}),
    ):
        message = service(1)
        message.spec.options.CopyFrom(options)
        assert "not allow options" in world.deliver(world.signed(message, powers=()))


def test_each_command_that_an_agent_knows_has_its_powers_listed(world: World) -> None:
    """A new one is refused until somebody decides which power it needs."""
    for field in pb.Command.DESCRIPTOR.oneofs_by_name["body"].fields:
        command = pb.Command(id="i")
        getattr(command, field.name).SetInParent()
        if field.name == "freeze":
            world.orders.check_command(command)
            continue
        with pytest.raises(Invalid, match="not signed"):
            world.orders.check_command(command)
    with pytest.raises(Invalid, match="does not support"):
        world.orders.check_command(pb.Command(id="of a newer version"))


def test_commands_need_an_order_and_a_power(world: World) -> None:
    for command in (
        pb.Command(id="i", run_job=pb.RunJob(namespace="n")),
        pb.Command(id="i", cancel_job=pb.CancelJob(command_id="c")),
        pb.Command(id="i", upgrade=pb.UpgradeAgent(image="evil")),
        pb.Command(id="i", terminate=pb.Terminate(service_id="s")),
    ):
        with pytest.raises(Invalid, match="not signed"):
            world.orders.check_command(command)
        request = order_for_command(CLUSTER, command)
        (weak,) = OrderSigner(FIRST, ()).sign([request], world.clock.now())
        command.order.CopyFrom(attestation_to_message(weak))
        with pytest.raises(Invalid, match="does not allow"):
            world.orders.check_command(command)
        (order,) = OrderSigner(FIRST).sign([request], world.clock.now())
        command.order.CopyFrom(attestation_to_message(order))
        world.orders.check_command(command)
        with pytest.raises(Invalid, match="for subject"):
            again = pb.Command()
            again.CopyFrom(command)
            again.id = "j"
            world.orders.check_command(again)
