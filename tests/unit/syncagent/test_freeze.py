"""Freeze statements: which count, replays, restarts and expiry; commands to a frozen agent."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from core.errors import Invalid, Unavailable
from core.runtime.tasks import Tasks
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from core.spec.statements.attestation import key_id
from core.spec.statements.freeze import FreezeAction, FreezeKeys, FreezeStatement, read_unverified
from core.wire.v1 import agent_pb2 as pb
from syncagent.autonomy.freeze import POLL_SECONDS, FreezeSwitch
from syncagent.link.commands import Commands
from tests.fakes.clock import START, FakeClock

NOW = int(START.timestamp())
FREEZE = FreezeStatement(FreezeAction.FREEZE, ("eu-1",), 10, NOW, reason="stolen token")
THAW = replace(FREEZE, action=FreezeAction.THAW, serial=11, reason="")


class Answers:
    """The answers to commands."""

    def __init__(self) -> None:
        self.done_ = list[CommandAnswer]()

    def done(self, done: CommandAnswer) -> None:
        self.done_.append(done)


@pytest.fixture
def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def switch_of(
    key: Ed25519PrivateKey, folder: Path, clock: FakeClock, cluster: str = "eu-1"
) -> FreezeSwitch:
    keys = FreezeKeys([key.public_key()])
    return FreezeSwitch(keys, cluster, folder / "freeze", clock, Answers())


def test_a_freeze_stops_writes_until_a_newer_thaw(
    key: Ed25519PrivateKey, clock: FakeClock, tmp_path: Path
) -> None:
    switch = switch_of(key, tmp_path, clock)
    switch.check()
    assert "serial 10): stolen token" in switch.obey(FREEZE.sign(key))
    with pytest.raises(Unavailable, match="frozen since 2026-01-01 00:00:00 UTC"):
        switch.check()
    assert switch.obey(THAW.sign(key)) == "this cluster is not frozen"
    switch.check()


def test_a_restart_keeps_the_freeze_and_its_serial(
    key: Ed25519PrivateKey, clock: FakeClock, tmp_path: Path
) -> None:
    switch_of(key, tmp_path, clock).obey(FREEZE.sign(key))
    again = switch_of(key, tmp_path, clock)
    assert "serial 10" in again.reason
    with pytest.raises(Invalid, match="serial 9, and this cluster has obeyed 10"):
        again.obey(replace(THAW, serial=9).sign(key))


@pytest.mark.parametrize("damaged", [False, True])
def test_a_statement_that_cannot_be_verified_keeps_the_freeze(
    key: Ed25519PrivateKey, clock: FakeClock, tmp_path: Path, damaged: bool
) -> None:
    """The freeze key was replaced, or the disk lost the file's content."""
    switch_of(key, tmp_path, clock).obey(FREEZE.sign(key))
    other = Ed25519PrivateKey.generate()
    if damaged:
        (tmp_path / "freeze").write_bytes(b"\xff\0")
    again = switch_of(other, tmp_path, clock)
    assert "cannot be verified" in again.reason and str(tmp_path / "freeze") in again.reason
    if not damaged:
        with pytest.raises(Invalid, match="serial 10"):
            again.obey(replace(THAW, serial=10).sign(other))
    again.obey(THAW.sign(other))
    assert not again.reason and not switch_of(other, tmp_path, clock).reason


def test_a_replaced_key_does_not_freeze_a_thawed_cluster(
    key: Ed25519PrivateKey, clock: FakeClock, tmp_path: Path
) -> None:
    switch_of(key, tmp_path, clock).obey(THAW.sign(key))
    assert not switch_of(Ed25519PrivateKey.generate(), tmp_path, clock).reason


def test_a_removed_key_thaws_nothing(
    key: Ed25519PrivateKey, clock: FakeClock, tmp_path: Path
) -> None:
    """Who may change the agent's settings is not who holds the freeze key."""

    def without_keys() -> FreezeSwitch:
        return FreezeSwitch(FreezeKeys(), "eu-1", tmp_path / "freeze", clock, Answers())

    assert not without_keys().enabled
    switch_of(key, tmp_path, clock).obey(FREEZE.sign(key))
    keyless = without_keys()
    assert keyless.enabled and "setting freeze.keys" in keyless.reason
    with pytest.raises(Unavailable, match="stolen token"):
        keyless.check()
    switch_of(key, tmp_path, clock).obey(THAW.sign(key))
    assert not without_keys().enabled


def test_a_freeze_that_is_not_stored_holds_and_is_not_done(
    key: Ed25519PrivateKey, clock: FakeClock, tmp_path: Path
) -> None:
    """The control plane sends the command again until a restart would keep the freeze."""
    answers, folder = Answers(), tmp_path / "state"
    folder.write_text("no folder")
    switch = FreezeSwitch(FreezeKeys([key.public_key()]), "eu-1", folder / "freeze", clock, answers)
    for _ in range(2):
        with pytest.raises(Unavailable, match="could not be stored"):
            switch.execute("1", FREEZE.sign(key))
        assert switch.reason and not answers.done_
    folder.unlink()
    switch.execute("1", FREEZE.sign(key))
    assert [answer.outcome for answer in answers.done_] == [CommandOutcome.SUCCEEDED]
    assert switch_of(key, folder, clock).reason


async def test_each_problem_of_a_place_is_logged_once(
    key: Ed25519PrivateKey, clock: FakeClock, tmp_path: Path
) -> None:
    file = tmp_path / "statements"
    old, foreign = replace(THAW, serial=9).sign(key), replace(FREEZE, clusters=("us-1",)).sign(key)
    file.write_text(f"{FREEZE.sign(key)}\n{old}\n{foreign}\nnoise\n")
    switch, tasks = switch_of(key, tmp_path, clock), Tasks("test")
    with capture_logs() as lines:
        tasks.spawn("file", switch.follow(file, None))
        for _ in range(4):
            await clock.advance(POLL_SECONDS)
        file.write_text("other noise!\nnoise\n" + FREEZE.sign(Ed25519PrivateKey.generate()))
        for _ in range(4):
            await clock.advance(POLL_SECONDS)
    await tasks.stop()
    refused = [line["reason"] for line in lines if line["event"] == "freeze statement not obeyed"]
    assert len(refused) == 4, refused


REFUSED = {
    "an old thaw": (replace(THAW, serial=10), "serial"),
    "another cluster": (replace(THAW, clusters=("us-1",)), "for us-1, not for eu-1"),
    "an expired thaw": (replace(THAW, expires_at=NOW), "expired"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_no_replay_thaws(
    case: str, key: Ed25519PrivateKey, clock: FakeClock, tmp_path: Path
) -> None:
    statement, said = REFUSED[case]
    switch = switch_of(key, tmp_path, clock)
    switch.obey(FREEZE.sign(key))
    with pytest.raises(Invalid, match=said):
        switch.obey(statement.sign(key))
    assert switch.reason


def test_another_key_is_refused_with_the_expected_one(
    key: Ed25519PrivateKey, clock: FakeClock, tmp_path: Path
) -> None:
    switch = switch_of(key, tmp_path, clock)
    with pytest.raises(Invalid) as refused:
        switch.obey(FREEZE.sign(Ed25519PrivateKey.generate()))
    assert key_id(key.public_key()) in refused.value.message
    keyless = FreezeSwitch(FreezeKeys(), "eu-1", tmp_path / "none", clock, Answers())
    with pytest.raises(Invalid, match=r"freeze\.keys"):
        keyless.obey(FREEZE.sign(key))


def test_a_cluster_without_a_name_obeys_statements_for_all(
    key: Ed25519PrivateKey, clock: FakeClock, tmp_path: Path
) -> None:
    switch = switch_of(key, tmp_path, clock, cluster="")
    with pytest.raises(Invalid, match=r"freeze\.cluster"):
        switch.obey(FREEZE.sign(key))
    assert switch.obey(replace(FREEZE, clusters=("*",)).sign(key))
    assert switch.reason


async def test_a_freeze_ends_at_its_expiry(
    key: Ed25519PrivateKey, clock: FakeClock, tmp_path: Path
) -> None:
    switch = switch_of(key, tmp_path, clock)
    switch.obey(replace(FREEZE, expires_at=NOW + 60).sign(key))
    await clock.advance(59)
    assert switch.reason
    await clock.advance(1)
    assert not switch.reason


def test_the_same_statement_again_changes_nothing(
    key: Ed25519PrivateKey, clock: FakeClock, tmp_path: Path
) -> None:
    switch, text = switch_of(key, tmp_path, clock), FREEZE.sign(key)
    assert switch.obey(text) == switch.obey(f"{text}\n")


@given(st.text(max_size=300), st.integers(0, 400))
def test_no_changed_text_counts(noise: str, at: int) -> None:
    """Neither noise nor a statement with one character changed."""
    signer = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
    keys, text = FreezeKeys([signer.public_key()]), FREEZE.sign(signer)
    at %= len(text)
    for changed in (noise, text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]):
        try:
            found = keys.verify(changed)
        except Invalid:
            continue
        assert found == FREEZE
    assert read_unverified(text) == FREEZE == keys.verify(text)


async def test_listeners_learn_of_both_changes_within_a_moment(
    key: Ed25519PrivateKey, clock: FakeClock, tmp_path: Path
) -> None:
    switch, seen, tasks = switch_of(key, tmp_path, clock), list[str](), Tasks("test")

    async def frozen() -> None:
        seen.append("frozen")

    async def thawed() -> None:
        seen.append("thawed")

    tasks.spawn("run", switch.run(frozen, thawed))
    await asyncio.sleep(0)
    for text in (FREEZE.sign(key), THAW.sign(key)):
        switch.obey(text)
        for _ in range(5):
            await asyncio.sleep(0)
    assert seen == ["frozen", "thawed"]
    await tasks.stop()


async def test_a_file_and_a_configmap_carry_statements(
    key: Ed25519PrivateKey, clock: FakeClock, tmp_path: Path
) -> None:
    """Comments and what nobody has signed are passed over."""

    class ConfigMap:
        async def statements(self) -> list[str]:
            return ["noise", THAW.sign(key)]

    file = tmp_path / "statements"
    file.write_text(f"# by hand\nnoise\n{FREEZE.sign(key)}\n")
    switch, tasks = switch_of(key, tmp_path, clock), Tasks("test")
    tasks.spawn("file", switch.follow(file, None))
    await asyncio.sleep(0)
    assert "serial 10" in switch.reason
    tasks.spawn("configmap", switch.follow(None, ConfigMap()))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not switch.reason
    await tasks.stop()


class Refusals:
    """The reconciler's part that answers commands."""

    def __init__(self) -> None:
        self.reasons = dict[str, str]()

    def refuse(self, command_id: str, reason: str) -> None:
        self.reasons[command_id] = reason


def test_a_frozen_agent_takes_no_command_but_a_thaw(
    key: Ed25519PrivateKey, clock: FakeClock, tmp_path: Path
) -> None:
    answers, refusals = Answers(), Refusals()
    switch = FreezeSwitch(
        FreezeKeys([key.public_key()]), "eu-1", tmp_path / "freeze", clock, answers
    )
    commands = Commands(refusals, freeze=switch)  # ty: ignore[invalid-argument-type]
    commands.take(pb.Command(id="1", freeze=pb.FreezeOrder(statement=FREEZE.sign(key))))
    for refused in (
        pb.Command(id="2", sync_now=pb.SyncNow(service_id="s")),
        pb.Command(id="3", run_job=pb.RunJob(namespace="n")),
        pb.Command(id="4", upgrade=pb.UpgradeAgent(version="9")),
        pb.Command(id="5", render=pb.RenderOrder()),
        pb.Command(id="6", terminate=pb.Terminate()),
        pb.Command(id="7", cancel_job=pb.CancelJob()),
    ):
        commands.take(refused)
    assert all("frozen since" in reason for reason in refusals.reasons.values())
    assert set(refusals.reasons) == {"2", "3", "4", "5", "6", "7"}
    commands.take(pb.Command(id="8", freeze=pb.FreezeOrder(statement="forged")))
    assert "not a freeze statement" in refusals.reasons["8"]
    commands.take(pb.Command(id="9", freeze=pb.FreezeOrder(statement=THAW.sign(key))))
    assert [answer.command_id for answer in answers.done_] == ["1", "9"]
    assert {answer.outcome for answer in answers.done_} == {CommandOutcome.SUCCEEDED}
    assert not switch.reason
