"""Key-encryption keys of every kind, and rotating both sorts of keys over a real store."""

import base64
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web

from controlplane.configuration.operations.contexts import ContextChange, ServiceContexts
from controlplane.configuration.ports import ContextStore
from controlplane.pipelines.engine import codec
from controlplane.pipelines.gates.kinds import ExternalRule, HttpRule, WaitRule, WorkflowRule
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.gate_rules import Step
from controlplane.pipelines.model.git_writes import FileChange, FileKind, GitWrite
from controlplane.pipelines.operations.drafts import (
    EdgeDraft,
    GateDraft,
    PipelineDraft,
    StageDraft,
    TriggerDraft,
)
from controlplane.pipelines.operations.gate_secrets import (
    open_sealed,
    with_resealed_secrets,
    without_secrets,
)
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.pipelines.operations.trigger_rows import open_webhook_secret
from controlplane.pipelines.ports import PipelineEventStore, PipelineTriggerStore
from controlplane.pipelines.triggers.kinds import ImageRule
from controlplane.secrets.backends.envelope import EnvelopeSealer
from controlplane.secrets.backends.hooks import CommandKek, HttpKek
from controlplane.secrets.backends.keks import AgeKek, LocalKek, age_identity, key_of
from controlplane.secrets.backends.vault import TransitKek, Vault
from controlplane.secrets.operations.keys import ACTIVATION_DELAY, DataKeyOperations
from controlplane.secrets.operations.secrets import SecretChange, Secrets
from controlplane.secrets.ports import DataKeyStore, KeyEncryption, SecretVersionStore
from core.age import AgeIdentity
from core.errors import Forbidden, Invalid, TowlineError, Unavailable
from tests.fakes.vault import TOKEN, FakeVault, running_vault
from tests.integration.controlplane.conftest import Role, World, person

KEY = bytes(range(32))
SIGNING = "whsec_" + base64.b64encode(b"s" * 32).decode()
# The hook of a test: it turns the bytes round, and keeps the context in front of them.
HOOK = """
import base64, json, sys
asked = json.load(sys.stdin)
data, context = base64.b64decode(asked["data"]), asked["context"].encode() + b"\\0"
if asked["operation"] == "wrap":
    found = (context + data)[::-1]
else:
    found = data[::-1]
    if not found.startswith(context): sys.exit(3)
    found = found[len(context):]
json.dump({"data": base64.b64encode(found).decode()}, sys.stdout)
"""


@pytest.fixture
async def vault() -> AsyncIterator[FakeVault]:
    async with running_vault() as found:
        yield found


@pytest.fixture(params=["local", "age", "vault", "command"])
async def kek(request: pytest.FixtureRequest, vault: FakeVault) -> AsyncIterator[KeyEncryption]:
    signed_in = Vault(vault.url, TOKEN)
    made = {
        "local": lambda: LocalKek(b"k" * 32),
        "age": lambda: AgeKek(AgeIdentity.generate().text),
        "vault": lambda: TransitKek(signed_in, "towline"),
        "command": lambda: CommandKek([sys.executable, "-c", HOOK]),
    }
    yield made[request.param]()
    await signed_in.close()


async def test_a_key_comes_back_and_only_to_its_context(kek: KeyEncryption) -> None:
    wrapped = await kek.wrap(KEY, "data-key:1")
    assert KEY not in wrapped
    assert await kek.unwrap(wrapped, "data-key:1") == KEY
    with pytest.raises(TowlineError):
        await kek.unwrap(wrapped, "data-key:2")


@pytest.mark.parametrize("kek", ["local", "age"], indirect=True)
async def test_a_short_text_is_no_wrapped_key(kek: KeyEncryption) -> None:
    with pytest.raises(Invalid):
        await kek.unwrap(b"short", "data-key:1")


async def test_a_hook_by_url_is_asked_as_documented() -> None:
    """With the token, as JSON; what it answers is the key."""
    asked = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.headers["authorization"], await request.json()))
        return web.json_response({"data": asked[-1][1]["data"]})

    app = web.Application()
    app.router.add_post("/kms", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    kek = HttpKek(f"http://127.0.0.1:{runner.addresses[0][1]}/kms", "sesame")
    try:
        assert await kek.unwrap(await kek.wrap(KEY, "c"), "c") == KEY
    finally:
        await kek.close()
        await runner.cleanup()
    assert asked[0][0] == "Bearer sesame"
    assert (asked[0][1]["operation"], asked[0][1]["context"]) == ("wrap", "c")


@pytest.mark.parametrize(
    ("script", "why"),
    [("import sys; sys.exit(4)", "code 4"), ("print('no')", "base64"), ("input()", "not end")],
    ids=["fails", "babbles", "hangs"],
)
async def test_a_command_that_fails_is_named_and_its_words_are_not(script: str, why: str) -> None:
    script = script.replace("input()", "import time; time.sleep(9)")
    with pytest.raises(Unavailable, match=why):
        await CommandKek([sys.executable, "-c", script], seconds=1).wrap(KEY, "c")


async def test_vault_is_named_when_it_refuses_or_is_sealed(vault: FakeVault) -> None:
    stranger = Vault(vault.url, "hvs.other", title="vault prod")
    with pytest.raises(Forbidden, match="vault prod answered 403"):
        await TransitKek(stranger, "towline").wrap(KEY, "c")
    vault.sealed = True
    with pytest.raises(Unavailable, match="503"):
        await TransitKek(stranger, "towline").wrap(KEY, "c")
    await stranger.close()


def test_keys_of_files_and_texts_are_checked(tmp_path: Path) -> None:
    """An identity file as age-keygen writes it; 32 bytes in base64, and nothing else."""
    identity = AgeIdentity.generate()
    file = tmp_path / "identity"
    file.write_text(f"# created: today\n# public key: {identity.recipient}\n{identity.text}\n")
    assert AgeKek(age_identity(file)).name == f"age:{identity.recipient}"
    assert key_of("a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=") == b"k" * 32
    file.write_text("nothing")
    for wrong in (lambda: age_identity(file), lambda: key_of("!"), lambda: key_of("AAAA")):
        with pytest.raises(Invalid):
            wrong()


class Sealing:
    """A world whose sealer can be rotated; `again` is another process on the same store."""

    def __init__(self, world: World, *keks: KeyEncryption) -> None:
        self.world = world
        self.ring = EnvelopeSealer(b"k" * 32)
        self.deps = replace(world.deps, sealer=self.ring)
        self.keys = DataKeyOperations(
            self.deps, self.ring, keks[0], {one.name: one for one in keks[1:]}
        )
        self.secrets, self.contexts = Secrets(self.deps), ServiceContexts(self.deps)

    async def sealed(self) -> list[bytes]:
        async with self.world.deps.store.read() as tx:
            rows = [*await tx[SecretVersionStore].all(), *await tx[ContextStore].all()]
        return [one.sealed or b"" for one in rows]


async def test_both_keys_are_rotated_while_everything_stays_readable(
    world: World, vault: FakeVault
) -> None:
    """From the file's key to one of Vault, then to a newer version of it."""
    signed_in = Vault(vault.url, TOKEN)
    before = Sealing(world, LocalKek(b"k" * 32))
    await before.secrets.save(world.admin, "db", SecretChange(b"first"))
    await before.contexts.save(world.admin, "vpc", ContextChange({}, {"a": "b"}))
    await before.keys.rotate(world.admin)
    old = await before.sealed()
    after = Sealing(world, TransitKek(signed_in, "towline"), LocalKek(b"k" * 32))
    assert await after.keys.rewrap() == 1
    await after.keys.load()
    assert await after.keys.reseal() == 0
    await world.clock.advance(ACTIVATION_DELAY / timedelta(seconds=1))
    await after.keys.load()
    assert (await after.keys.state(world.admin)).outdated == 2
    assert await after.keys.reseal() == 2
    assert await after.keys.reseal() == 0
    now = await after.sealed()
    assert not set(old) & set(now)
    vault.rotate("towline")
    await after.keys.rotate(world.admin)
    third = Sealing(world, TransitKek(signed_in, "towline"))
    await third.keys.load()
    async with world.deps.store.read() as tx:
        (version,) = await tx[SecretVersionStore].all()
        assert {one.kek for one in await tx[DataKeyStore].all()} == {"vault:transit/towline"}
        assert all(one.wrapped.startswith(b"vault:v2:") for one in await tx[DataKeyStore].all())
    assert third.ring.open(version.sealed or b"", version.context) == b"first"
    await signed_in.close()


async def test_undecryptable_values_are_named_and_block_no_others(world: World) -> None:
    """A value that was altered, cut off, or moved to another row."""
    sealing = Sealing(world, LocalKek(b"k" * 32))
    await sealing.keys.begin()
    await sealing.keys.load()
    for name in ("altered", "cut", "moved", "whole"):
        await sealing.contexts.save(world.admin, name, ContextChange({}, {"a": "b"}))
    await sealing.secrets.save(world.admin, "db", SecretChange(b"first"))
    async with world.deps.store.write() as tx:
        rows = {row.name: row for row in await tx[ContextStore].all()}
        kept, own = rows["whole"].sealed, rows["altered"].sealed
        assert kept and own
        last = bytes([own[-1] ^ 1])
        for name, sealed in (("altered", own[:-1] + last), ("cut", kept[:12]), ("moved", kept)):
            await tx[ContextStore].change(rows[name].id, sealed=sealed)
    await sealing.keys.rotate(world.admin)
    await world.clock.advance(ACTIVATION_DELAY / timedelta(seconds=1))
    await sealing.keys.load()
    assert await sealing.keys.reseal() == 2
    assert await sealing.keys.reseal() == 0
    state = await sealing.keys.state(world.admin)
    named = ["context altered", "context cut", "context moved"]
    assert (state.outdated, sorted(state.undecryptable)) == (3, named)
    for name in ("altered", "cut", "moved"):
        await sealing.contexts.save(world.admin, name, ContextChange({}, {"a": "c"}))
    assert await sealing.keys.reseal() == 0
    state = await sealing.keys.state(world.admin)
    assert (state.outdated, state.undecryptable) == (0, ())


async def test_secrets_of_gates_and_webhooks_are_sealed_anew(world: World) -> None:
    """Those of steps and of a stage's own workflow too; records of pipelines keep none."""
    sealing = Sealing(world, LocalKek(b"k" * 32))
    await sealing.keys.begin()
    await sealing.keys.load()
    pipelines = Pipelines(sealing.deps)
    row = (await pipelines.save(world.admin, await signing_pipeline(world))).row
    old = (await pipelines.get(world.admin, row.id)).spec
    await sealing.keys.rotate(world.admin)
    await world.clock.advance(ACTIVATION_DELAY / timedelta(seconds=1))
    await sealing.keys.load()
    assert (await sealing.keys.state(world.admin)).outdated == 2
    assert await sealing.keys.reseal() == 2
    assert await sealing.keys.reseal() == 0
    after = (await pipelines.get(world.admin, row.id)).spec
    assert [one.sealed for one in signing(after)] != [one.sealed for one in signing(old)]
    assert [open_sealed(sealing.ring, one.sealed) for one in signing(after)] == [SIGNING] * 4
    assert after == with_resealed_secrets(sealing.ring, after), "nothing but its secrets changes"
    assert without_secrets(after) == without_secrets(old)
    async with world.deps.store.read() as tx:
        (trigger,) = await tx[PipelineTriggerStore].all()
        records = await tx[PipelineEventStore].all()
    assert open_webhook_secret(sealing.ring, trigger) == b"hook"
    kept = [codec.pipeline_from_json(one.spec) for one in records if one.spec]
    assert kept and not any(rule.sealed for one in kept for rule in signing(one))


async def test_a_webhooks_secret_opens_in_its_own_row_only(world: World) -> None:
    sealing = Sealing(world, LocalKek(b"k" * 32))
    await Pipelines(sealing.deps).save(world.admin, await signing_pipeline(world))
    async with world.deps.store.read() as tx:
        (row,) = await tx[PipelineTriggerStore].all()
    with pytest.raises(TowlineError, match="another row"):
        open_webhook_secret(sealing.ring, replace(row, id="another"))
    unbound = replace(row, sealed_webhook=sealing.ring.seal(b"older", "pipeline-trigger"))
    with pytest.raises(TowlineError, match="another row"):
        open_webhook_secret(sealing.ring, unbound)
    assert open_webhook_secret(sealing.ring, replace(row, sealed_webhook=None)) == b""


async def signing_pipeline(world: World) -> PipelineDraft:
    """A webhook, and four rules that sign: two gates, a step of a gate and one of a stage."""
    cluster = await world.cluster()
    repository = await world.repository()
    dev, prod = [(await world.service(cluster, repository, name)).id for name in ("dev", "prod")]
    http = HttpRule("https://gate.example.org", sealed=SIGNING)
    gates = [
        GateDraft("http", http),
        GateDraft("ci", ExternalRule("ci@example.org", sealed=SIGNING)),
        GateDraft("flow", WorkflowRule((Step("ask", http), Step("wait", WaitRule(1))))),
    ]
    own = GateDraft("own", WorkflowRule((Step("ask", http),)))
    stages = [StageDraft("dev", [dev]), StageDraft("prod", [prod], workflow=own)]
    write = GitWrite((FileChange(FileKind.IMAGE, "shop.yaml", image="example.org/shop"),))
    image = TriggerDraft("image", ImageRule("example.org/shop", range="^1"), write, "hook")
    return PipelineDraft("shop", stages, [EdgeDraft("dev", "prod", gates)], triggers=[image])


def signing(spec: pipeline.Pipeline) -> list[HttpRule | ExternalRule]:
    """The rules of a pipeline that may sign."""
    rules = [rule for _, gate in spec.all_gates for rule in gate.rule.leaf_rules()]
    return [one for one in rules if isinstance(one, HttpRule | ExternalRule)]


async def test_a_key_of_elsewhere_is_named(world: World) -> None:
    """Starting with another key fails with the missing key and the setting to name it in."""
    first = Sealing(world, LocalKek(b"a" * 32))
    await first.keys.begin()
    await first.keys.begin()
    other = Sealing(world, LocalKek(b"b" * 32))
    with pytest.raises(Invalid, match=r"local:\w+, which is not configured"):
        await other.keys.load()
    async with world.deps.store.read() as tx:
        assert len(await tx[DataKeyStore].all()) == 1


@pytest.mark.parametrize("wrong", [b"", b"o" * 32], ids=["nothing", "another key"])
async def test_a_hook_that_returns_another_key_replaces_no_wrapped_one(
    world: World, wrong: bytes
) -> None:
    """Its answer would destroy every value that the data key encrypts."""
    first = Sealing(world, LocalKek(b"a" * 32))
    await first.keys.begin()
    async with world.deps.store.read() as tx:
        before = await tx[DataKeyStore].all()
    answer = {"data": base64.b64encode(wrong).decode()}
    broken = CommandKek([sys.executable, "-c", f"print({json.dumps(answer)!r})"])
    moved = Sealing(world, broken, LocalKek(b"a" * 32))
    with pytest.raises(Unavailable, match="returned a"):
        await moved.keys.rewrap()
    async with world.deps.store.read() as tx:
        assert await tx[DataKeyStore].all() == before


async def test_only_who_administers_the_installation_rotates_keys(world: World) -> None:
    keys = Sealing(world, LocalKek(b"k" * 32)).keys
    for verb in (keys.rotate, keys.state):
        with pytest.raises(Forbidden):
            await verb(person(Role.EDITOR, "bob"))
