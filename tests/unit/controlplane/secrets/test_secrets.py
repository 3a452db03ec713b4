"""Operations on secrets, their versions, their uses and their sources."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from controlplane.authorization import ANONYMOUS, DEFAULT_PROJECT, Actor, Policy, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.platform.context import DESIRED_STATE, SECRET, SERVICE
from controlplane.platform.ports import PageQuery
from controlplane.secrets.model.generated import ValueAlphabet, ValueGenerator
from controlplane.secrets.model.rotation import RotationDecision, RotationPhase, RotationPlan
from controlplane.secrets.model.secret import (
    MAX_USES,
    MAX_VALUE_LENGTH,
    MAX_VERSIONS,
    Secret,
    SecretVersion,
)
from controlplane.secrets.model.secret_source import SecretSource
from controlplane.secrets.operations.refresh import SecretRefresher
from controlplane.secrets.operations.rotations import Rotations
from controlplane.secrets.operations.secrets import SecretChange, Secrets
from controlplane.secrets.ports import SecretStore, SecretVersionStore
from controlplane.secrets.sources.environment import EnvironmentSource
from controlplane.services.ports import SecretUseStore, ServiceStore
from core.errors import Conflict, Forbidden, Invalid, NotFound, TowlineError, Unauthenticated
from core.sealed_values import seal_value
from core.spec.status import Phase
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, make_service
from tests.unit.controlplane.secrets.conftest import DEV, EDITOR_OF_SHOP, SHOP, FakeSources

SOURCE = EnvironmentSource("DB")
FROZEN = ClusterGroup("g", "eu", START, START, cluster_ids=("dev",), frozen=True, reason="sale")
PLAN = RotationPlan(batch=1, soak_s=0)


async def values(world: MemoryOperations, secret: Secret) -> dict[int, bytes | None]:
    """The values of all versions, by number."""
    return {
        row.number: world.context.sealer.open(row.sealed, row.context) if row.sealed else None
        for row in await world.rows(SecretVersionStore, secret_id=secret.id)
    }


async def use(secrets: Secrets, *names: str) -> Secret:
    """A secret that these services use."""
    secret = await secrets.save(EDITOR, "db", SecretChange(b"one"))
    for name in names:
        await secrets.use(EDITOR, f"dev-{name}", {"db": (secret.id, None)})
    return secret


@pytest.mark.parametrize("alphabet", ValueAlphabet)
async def test_a_value_is_generated_once_for_each_form(
    world: MemoryOperations, secrets: Secrets, alphabet: ValueAlphabet
) -> None:
    form = ValueGenerator(64, alphabet)
    first = await secrets.save(EDITOR, "key", SecretChange(generate=form))
    again = await secrets.save(EDITOR, "key", SecretChange(generate=form, description="x"))
    longer = SecretChange(generate=replace(form, length=65))
    third = await secrets.save(EDITOR, "key", longer)
    assert (first.newest, again.newest, third.newest) == (1, 1, 2)
    found = await values(world, third)
    assert {len(value or b"") for value in found.values()} == {64, 65}
    assert {char for value in found.values() for char in (value or b"").decode()} <= set(
        alphabet.characters
    )
    assert len(set((found[1] or b"").decode())) > 5


async def test_a_sealed_value_is_opened_once_and_kept_in_its_form(
    world: MemoryOperations, secrets: Secrets
) -> None:
    """Only for the project and the name that it was sealed for."""
    public = world.context.sealer.manifest_key.public
    sealed = SecretChange(sealed_value=seal_value(public, "default", "db", b"canary-51c3-otter"))
    first = await secrets.save(EDITOR, "db", sealed)
    assert (first.sealed_value, first.newest) == (sealed.sealed_value, 1)
    assert await values(world, first) == {1: b"canary-51c3-otter"}
    assert (await secrets.save(EDITOR, "db", sealed)).newest == 1

    await world.given(SHOP)
    for name, project in (("other", None), ("other", "shop"), ("db2", "shop")):
        with pytest.raises(Invalid) as error:
            await secrets.save(EDITOR, name, replace(sealed, project_id=project))
        assert error.value.field == "sealedValue"
    assert [secret.name for secret in await world.rows(SecretStore)] == ["db"]

    again = seal_value(public, "default", "db", b"canary-51c4-otter")
    second = await secrets.save(EDITOR, "db", SecretChange(sealed_value=again))
    assert (second.newest, second.sealed_value) == (2, again)
    unsealed = await secrets.save(EDITOR, "db", SecretChange(sealed_value=""))
    assert (unsealed.newest, unsealed.sealed_value) == (2, "")
    await secrets.save(EDITOR, "db", sealed)
    assert (await secrets.save(EDITOR, "db", SecretChange(b"mine"))).sealed_value == ""
    await secrets.save(EDITOR, "db", sealed)
    sourced = await secrets.save(ADMIN, "db", SecretChange(source=SOURCE))
    assert (sourced.sealed_value, sourced.source) == ("", SOURCE)


async def test_a_value_or_a_source_replaces_a_generated_value(
    world: MemoryOperations, secrets: Secrets
) -> None:
    form = ValueGenerator()
    await secrets.save(EDITOR, "key", SecretChange(generate=form))
    assert (await secrets.save(EDITOR, "key", SecretChange(b"mine"))).generate is None
    sourced = await secrets.save(ADMIN, "key", SecretChange(source=SOURCE))
    back = await secrets.save(EDITOR, "key", SecretChange(generate=form))
    assert (sourced.generate, back.source, back.newest) == (None, None, 3)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (SecretChange(b"x", generate=ValueGenerator()), "value"),
        (SecretChange(source=SOURCE, generate=ValueGenerator()), "source"),
        (SecretChange(b"x", sealed_value="v1.x.x"), "value"),
        (SecretChange(sealed_value="x" * (2 * MAX_VALUE_LENGTH + 1)), "sealedValue"),
        (SecretChange(generate=ValueGenerator(15)), "generate.length"),
        (SecretChange(generate=ValueGenerator(1025)), "generate.length"),
    ],
)
async def test_a_wrong_generator_is_refused(
    world: MemoryOperations, secrets: Secrets, change: SecretChange, field: str
) -> None:
    with pytest.raises(Invalid) as error:
        await secrets.save(ADMIN, "key", change)
    assert error.value.field == field
    assert await world.rows(SecretStore) == []


async def test_a_secret_is_created_and_gets_versions(
    world: MemoryOperations, secrets: Secrets
) -> None:
    """The same value makes no version; no row contains the value."""
    made = await secrets.save(EDITOR, "db", SecretChange(b"one", description="d" * 1000))
    await secrets.save(EDITOR, "db", SecretChange(b"two"))
    after = await secrets.save(EDITOR, "db", SecretChange(b"two", description="", refresh_s=10))
    assert (made.current, after.current, after.newest) == (1, 2, 2)
    assert (after.description, after.refresh_s) == ("", 10)
    assert await world.rows(SecretStore) == [after]
    assert await values(world, after) == {1: b"one", 2: b"two"}
    rows = await world.rows(SecretVersionStore)
    assert all(row.actor == EDITOR.email and b"one" not in (row.sealed or b"") for row in rows)
    assert await world.audited() == [(EDITOR.email, "saveSecret", "db")] * 3
    assert world.published == [(SECRET, made.id)] * 3


@pytest.mark.parametrize(
    ("name", "change", "field"),
    [
        ("", SecretChange(b"x"), "name"),
        ("x" * 129, SecretChange(b"x"), "name"),
        ("-x", SecretChange(b"x"), "name"),
        ("db", SecretChange(b""), "value"),
        ("db", SecretChange(b"x" * (MAX_VALUE_LENGTH + 1)), "value"),
        ("db", SecretChange(b"x", SOURCE), "value"),
        ("db", SecretChange(description="x" * 1001), "description"),
        ("db", SecretChange(refresh_s=9), "refreshSeconds"),
        ("db", SecretChange(refresh_s=7 * 24 * 3600 + 1), "refreshSeconds"),
    ],
)
async def test_an_invalid_secret_is_refused(
    world: MemoryOperations, secrets: Secrets, name: str, change: SecretChange, field: str
) -> None:
    with pytest.raises(Invalid) as error:
        await secrets.save(EDITOR, name, change)
    assert error.value.field == field
    assert await world.rows(SecretStore) == [] and await world.rows(SecretVersionStore) == []
    assert await world.audited() == [] and world.published == []


async def test_a_secret_at_the_limits_is_accepted(secrets: Secrets) -> None:
    change = SecretChange(b"x" * MAX_VALUE_LENGTH, refresh_s=7 * 24 * 3600)
    assert (await secrets.save(EDITOR, "x" * 128, change)).current == 1


async def test_a_plan_is_kept_for_later_values_and_removed_by_a_batch_of_0(
    secrets: Secrets,
) -> None:
    await secrets.save(EDITOR, "db", SecretChange(b"one", plan=PLAN))
    rotated = await secrets.save(EDITOR, "db", SecretChange(b"two"))
    assert (rotated.current, rotated.newest) == (1, 2)
    assert rotated.rotation is not None
    assert rotated.rotation.plan == PLAN
    await secrets.decide(EDITOR, rotated.id, RotationDecision.ABORT)
    at_once = await secrets.save(EDITOR, "db", SecretChange(b"three", plan=RotationPlan(batch=0)))
    assert (at_once.current, at_once.newest, at_once.plan) == (3, 3, None)


async def test_a_plan_is_checked(world: MemoryOperations, secrets: Secrets) -> None:
    await secrets.save(EDITOR, "db", SecretChange(b"one"))
    for plan, field in ((RotationPlan(batch=-1), "batch"), (RotationPlan(soak_s=-1), "soak_s")):
        with pytest.raises(Invalid) as error:
            await secrets.save(EDITOR, "db", SecretChange(b"two", plan=plan))
        assert error.value.field == field
    assert len(await world.rows(SecretVersionStore)) == 1


async def test_a_secret_stays_in_its_project(world: MemoryOperations, secrets: Secrets) -> None:
    await world.given(SHOP)
    with pytest.raises(Forbidden):
        await secrets.save(EDITOR_OF_SHOP, "db", SecretChange(b"x"))
    made = await secrets.save(EDITOR_OF_SHOP, "db", SecretChange(b"x", project_id="shop"))
    assert made.project_id == "shop"
    assert await secrets.save(EDITOR_OF_SHOP, "db", SecretChange(project_id="shop"))
    with pytest.raises(Conflict, match="cannot be moved"):
        await secrets.save(EDITOR, "db", SecretChange(project_id=DEFAULT_PROJECT))


async def test_only_visible_secrets_are_listed_and_found(
    world: MemoryOperations, secrets: Secrets
) -> None:
    await world.given(SHOP)
    own = await secrets.save(EDITOR_OF_SHOP, "own", SecretChange(b"x", project_id="shop"))
    db = await secrets.save(EDITOR, "db", SecretChange(b"x"))
    assert set((await secrets.page(VIEWER, PageQuery())).items) == {own, db}
    assert (await secrets.page(EDITOR_OF_SHOP, PageQuery())).items == (own,)
    assert await secrets.get(VIEWER, None, "db") == db
    for id, name in ((db.id, None), (None, "db"), ("none", None), (None, None)):
        with pytest.raises(NotFound):
            await secrets.get(EDITOR_OF_SHOP, id, name)
    with pytest.raises(NotFound):
        await secrets.versions(EDITOR_OF_SHOP, db.id)


async def test_versions_are_listed_without_values(secrets: Secrets) -> None:
    for value in (b"one", b"two"):
        secret = await secrets.save(EDITOR, "db", SecretChange(value))
    found = await secrets.versions(VIEWER, secret.id)
    assert [(row.number, row.sealed) for row in found] == [(2, None), (1, None)]


async def test_a_secret_has_at_most_100_versions_with_a_value(
    world: MemoryOperations, secrets: Secrets
) -> None:
    secret = await secrets.save(EDITOR, "db", SecretChange(b"one"))
    await world.given(
        SecretVersion("gone", secret.id, 1000, START, "", None, START),
        *(SecretVersion(f"v{n}", secret.id, n, START, "", b"x") for n in range(2, MAX_VERSIONS)),
    )
    async with world.store.write() as tx:
        await tx[SecretStore].change(secret.id, newest=MAX_VERSIONS - 1)
    await secrets.save(EDITOR, "db", SecretChange(b"two"))
    with pytest.raises(Invalid, match="revoke some first") as error:
        await secrets.save(EDITOR, "db", SecretChange(b"three"))
    assert error.value.field == "value"


async def test_a_source_whose_value_is_one_too_many_says_so(
    world: MemoryOperations, secrets: Secrets
) -> None:
    """Services keep the last value until somebody revokes a version."""
    secret = await secrets.save(ADMIN, "db", SecretChange(source=SOURCE))
    await SecretRefresher(world.context, FakeSources(b"one")).refresh(secret.id)
    await world.given(
        *(SecretVersion(f"v{n}", secret.id, n, START, "", b"x") for n in range(2, MAX_VERSIONS + 1))
    )
    await world.clock.advance(secret.refresh_s)
    await SecretRefresher(world.context, FakeSources(b"two")).refresh(secret.id)
    (after,) = await world.rows(SecretStore)
    assert after.problem == "value: 100 versions have a value: revoke some first"
    assert (after.current, after.refreshed_at) == (1, START)
    assert (SECRET, secret.id) in world.published
    await secrets.revoke(ADMIN, secret.id, 2)
    await world.clock.advance(secret.refresh_s)
    async with world.store.write() as tx:
        await tx[SecretStore].change(secret.id, newest=MAX_VERSIONS)
    await SecretRefresher(world.context, FakeSources(b"two")).refresh(secret.id)
    (after,) = await world.rows(SecretStore)
    assert (after.problem, after.current) == ("", MAX_VERSIONS + 1)


@pytest.mark.parametrize("sealed", [None, b"damaged"])
async def test_a_lost_value_is_set_again(
    world: MemoryOperations, secrets: Secrets, sealed: bytes | None
) -> None:
    secret = await secrets.save(EDITOR, "db", SecretChange(b"one"))
    (version,) = await world.rows(SecretVersionStore)
    async with world.store.write() as tx:
        await tx[SecretVersionStore].change(version.id, sealed=sealed)
    assert (await secrets.save(EDITOR, "db", SecretChange(b"one"))).current == secret.current + 1


async def test_services_follow_the_current_version_unless_they_are_pinned(
    world: MemoryOperations, secrets: Secrets
) -> None:
    secret = await use(secrets, "web")
    await secrets.use(EDITOR, "dev-api", {"db": (secret.id, 1)})
    await secrets.save(EDITOR, "db", SecretChange(b"two"))
    uses = {view.service.name: view.use for view in await secrets.consumers(VIEWER, secret.id)}
    assert {name: (use.version, use.pinned) for name, use in uses.items()} == {
        "web": (2, False),
        "api": (1, True),
    }
    assert uses["web"].changed_at == world.clock.now()


async def test_a_frozen_cluster_keeps_its_versions(
    world: MemoryOperations, secrets: Secrets
) -> None:
    """It gets the current version after it is unfrozen."""
    secret = await use(secrets, "web")
    await world.given(FROZEN)
    await secrets.save(EDITOR, "db", SecretChange(b"two"))
    assert [row.version for row in await world.rows(SecretUseStore)] == [1]
    with pytest.raises(Conflict, match="sale"):
        await secrets.use(EDITOR, "dev-web", {})
    rotations = Rotations(world.context)
    assert await rotations.outdated() == [secret.id]
    await rotations.advance(secret.id)
    assert [row.version for row in await world.rows(SecretUseStore)] == [1]


async def test_the_uses_of_a_service_are_replaced(
    world: MemoryOperations, secrets: Secrets
) -> None:
    secret = await use(secrets, "web")
    other = await secrets.save(EDITOR, "other", SecretChange(b"x"))
    wanted = {"db": (other.id, None), "second": (secret.id, None)}
    views = await secrets.use(EDITOR, "dev-web", wanted)
    assert [(view.use.name, view.secret.name) for view in views] == [
        ("db", "other"),
        ("second", "db"),
    ]
    count = len(await world.audited())
    await secrets.use(EDITOR, "dev-web", wanted)
    assert len(await world.audited()) == count
    assert await secrets.use(EDITOR, "dev-web", {}) == []
    assert await world.rows(SecretUseStore) == []
    assert (await world.audited())[-1] == (EDITOR.email, "useSecrets", "web")


async def test_the_agents_of_users_are_told_of_a_new_value(
    world: MemoryOperations, secrets: Secrets
) -> None:
    """The generation rises once for each change, and the ledger says why."""
    secret = await use(secrets)
    async with world.store.write() as tx:
        for id in ("dev-web", "dev-api"):
            await tx[ServiceStore].change(id, digest="d", generation=4)
    await secrets.use(EDITOR, "dev-web", {"db": (secret.id, None), "other": (secret.id, None)})
    assert {use.sequence for use in await world.rows(SecretUseStore)} == {5}
    assert world.published[-2:] == [(SERVICE, "dev-web"), (DESIRED_STATE, "dev/dev-web")]
    world.bus.published.clear()
    await secrets.save(EDITOR, "db", SecretChange(b"two"))
    assert world.published == [
        (SECRET, secret.id),
        (SERVICE, "dev-web"),
        (DESIRED_STATE, "dev/dev-web"),
    ]
    services = {row.id: row.desired.generation for row in await world.rows(ServiceStore)}
    assert services == {"dev-web": 6, "dev-api": 4}
    assert {use.sequence for use in await world.rows(SecretUseStore)} == {6}
    assert [(row.sequence, row.actor, row.message) for row in await world.ledger()] == [
        (5, EDITOR.email, "secrets: db is version 1 of db, other is version 1 of db"),
        (6, EDITOR.email, "secrets: db is version 2 of db"),
    ]
    web = await world.row(ServiceStore, "dev-web")
    assert web is not None and web.desired.uses_secrets
    await secrets.use(EDITOR, "dev-web", {})
    web = await world.row(ServiceStore, "dev-web")
    assert web is not None and not web.desired.uses_secrets


async def test_a_service_counts_when_its_agent_has_the_version(
    world: MemoryOperations, secrets: Secrets
) -> None:
    """Its health before says nothing about the new value."""
    secret = await use(secrets, "web")
    rotations = Rotations(world.context)
    async with world.store.write() as tx:
        await tx[ServiceStore].change("dev-web", digest="d", generation=4)
    await secrets.save(EDITOR, "db", SecretChange(b"two", plan=PLAN))
    await rotations.advance(secret.id)

    async def phase_after(generation: int, phase: Phase) -> RotationPhase:
        async with world.store.write() as tx:
            observed = {"observed_generation": generation, "phase": phase}
            await tx[ServiceStore].change("dev-web", **observed)
        await rotations.advance(secret.id)
        (row,) = await world.rows(SecretStore)
        assert row.rotation is not None
        (view,) = await secrets.consumers(VIEWER, secret.id)
        assert view.applied is (generation >= 5)
        return row.rotation.phase

    assert await phase_after(4, Phase.HEALTHY) is RotationPhase.ROLLING
    assert await phase_after(4, Phase.FAILED) is RotationPhase.ROLLING
    assert await phase_after(5, Phase.APPLIED) is RotationPhase.ROLLING
    assert await phase_after(5, Phase.HEALTHY) is RotationPhase.VERIFYING
    assert await phase_after(6, Phase.DEGRADED) is RotationPhase.HELD


async def test_pinned_uses_and_frozen_clusters_hold_a_rotation(
    world: MemoryOperations, secrets: Secrets
) -> None:
    """A new use during a rotation gets the new version."""
    secret = await use(secrets, "web")
    await secrets.use(EDITOR, "dev-web", {"db": (secret.id, 1)})
    await secrets.save(EDITOR, "db", SecretChange(b"two", plan=PLAN))
    await secrets.use(EDITOR, "dev-api", {"db": (secret.id, None)})
    await Rotations(world.context).advance(secret.id)
    versions = {use.service_id: use.version for use in await world.rows(SecretUseStore)}
    assert versions == {"dev-web": 1, "dev-api": 2}
    async with world.store.write() as tx:
        await tx[ServiceStore].change(
            "dev-api", digest="d", generation=4, observed_generation=9, phase=Phase.HEALTHY
        )
    world.bus.published.clear()
    await Rotations(world.context).advance(secret.id)
    (row,) = await world.rows(SecretStore)
    assert row.rotation is not None and row.rotation.phase is RotationPhase.HELD
    assert row.rotation.reason == "pinned, or in frozen clusters: web"
    assert world.published == [(SECRET, secret.id)]
    await Rotations(world.context).advance(secret.id)
    assert world.published == [(SECRET, secret.id)]


async def test_the_audit_log_names_versions_and_fields_and_no_value(
    world: MemoryOperations, secrets: Secrets
) -> None:
    form = ValueGenerator(64, ValueAlphabet.ALPHANUMERIC)
    secret = await secrets.save(EDITOR, "db", SecretChange(generate=form, description="d"))
    await secrets.use(EDITOR, "dev-web", {"db": (secret.id, None)})
    await secrets.save(EDITOR, "db", SecretChange(b"canary-77c1-otter", plan=PLAN))
    await secrets.decide(EDITOR, secret.id, RotationDecision.ABORT)
    await secrets.revoke(EDITOR, secret.id, 2)
    fields = ["generate", "sealed_value", "source"]
    assert await world.audit_details() == [
        ("saveSecret", {"version": 1, "changed": ["description", *fields]}),
        ("useSecrets", {"names": ["db"]}),
        ("saveSecret", {"version": 2, "changed": [fields[0], "plan", *fields[1:]]}),
        ("decideSecretRotation", {"decision": "abort"}),
        ("revokeSecretVersion", {"version": 2}),
    ]


async def test_a_secret_in_many_uses_names_five_services(
    world: MemoryOperations, secrets: Secrets
) -> None:
    services = [make_service(f"s{number}", DEV) for number in range(6)]
    secret = await use(secrets)
    await world.given(*services)
    for count, more in ((5, ""), (6, " and 1 more")):
        await secrets.use(EDITOR, f"dev-s{count - 1}", {"db": (secret.id, None)})
        for service in services[: count - 1]:
            await secrets.use(EDITOR, service.id, {"db": (secret.id, None)})
        with pytest.raises(Conflict, match=f"in use by s0, s1, s2, s3, s4{more}: "):
            await secrets.delete(EDITOR, secret.id)


async def test_an_invalid_use_is_refused(world: MemoryOperations, secrets: Secrets) -> None:
    secret = await use(secrets)
    empty = await secrets.save(EDITOR, "empty", SecretChange(description="x"))
    for wanted, error in (
        ({"db": ("none", None)}, NotFound),
        ({"db": (secret.id, 7)}, Conflict),
        ({"db": (empty.id, None)}, Conflict),
        ({"a b": (secret.id, None)}, Invalid),
        ({f"n{n}": (secret.id, None) for n in range(MAX_USES + 1)}, Invalid),
    ):
        with pytest.raises(error):
            await secrets.use(EDITOR, "dev-web", wanted)
    for actor, error in ((VIEWER, Forbidden), (NOBODY, NotFound), (ANONYMOUS, Unauthenticated)):
        with pytest.raises(error):
            await secrets.use(actor, "dev-web", {"db": (secret.id, None)})
    assert await world.rows(SecretUseStore) == []


async def test_a_use_needs_permission_of_the_secret(
    world: MemoryOperations, secrets: Secrets
) -> None:
    """Uses of secrets that the actor does not see are left out."""
    secret = await use(secrets, "web")
    of_dev = person(BuiltInRole.EDITOR, "di", Scope("cluster:dev"))
    with pytest.raises(NotFound):
        await secrets.use(of_dev, "dev-api", {"db": (secret.id, None)})
    reader = replace(of_dev, policy=Policy((*of_dev.policy.grants, *VIEWER.policy.grants)))
    with pytest.raises(Forbidden):
        await secrets.use(reader, "dev-api", {"db": (secret.id, None)})
    assert await secrets.used_by(of_dev, "dev-web") == []
    assert len(await secrets.used_by(VIEWER, "dev-web")) == 1
    assert await secrets.used_by(VIEWER, "dev-api") == []
    with pytest.raises(NotFound):
        await secrets.used_by(NOBODY, "dev-web")


async def test_an_unused_secret_is_deleted(world: MemoryOperations, secrets: Secrets) -> None:
    secret = await use(secrets, "web", "api")
    with pytest.raises(Conflict, match="secret 'db' is in use by api, web: `towline secrets"):
        await secrets.delete(EDITOR, secret.id)
    for name in ("web", "api"):
        await secrets.use(EDITOR, f"dev-{name}", {})
    assert (await secrets.delete(EDITOR, secret.id)).name == "db"
    assert await world.rows(SecretStore) == [] and await world.rows(SecretVersionStore) == []
    assert (await world.audited())[-1] == (EDITOR.email, "deleteSecret", "db")


async def test_an_old_version_is_revoked(world: MemoryOperations, secrets: Secrets) -> None:
    secret = await use(secrets)
    await secrets.use(EDITOR, "dev-web", {"db": (secret.id, 1)})
    secret = await secrets.save(EDITOR, "db", SecretChange(b"two"))
    for number, error in ((1, Conflict), (2, Conflict), (3, NotFound)):
        with pytest.raises(error):
            await secrets.revoke(EDITOR, secret.id, number)
    await secrets.use(EDITOR, "dev-web", {})
    for _ in range(2):
        await secrets.revoke(EDITOR, secret.id, 1)
    assert await values(world, secret) == {1: None, 2: b"two"}
    assert (await world.audited())[-1] == (EDITOR.email, "revokeSecretVersion", "db")
    assert world.published[-1] == (SECRET, secret.id)
    with pytest.raises(Conflict, match="no version 1"):
        await secrets.use(EDITOR, "dev-web", {"db": (secret.id, 1)})


async def test_a_rotation_is_aborted(world: MemoryOperations, secrets: Secrets) -> None:
    secret = await use(secrets, "web")
    rotations = Rotations(world.context)
    with pytest.raises(Conflict, match="no active rotation"):
        await secrets.decide(EDITOR, secret.id, RotationDecision.ABORT)
    begun = await secrets.save(EDITOR, "db", SecretChange(b"two", plan=PLAN))
    assert (begun.current, begun.newest, begun.rotating) == (1, 2, True)
    assert await rotations.rotating() == {secret.id}
    for call in (
        secrets.save(EDITOR, "db", SecretChange(b"three")),
        secrets.revoke(EDITOR, secret.id, 2),
    ):
        with pytest.raises(Conflict, match="finish or abort it first"):
            await call
    await rotations.advance(secret.id)
    assert [row.version for row in await world.rows(SecretUseStore)] == [2]
    ended = await secrets.decide(EDITOR, secret.id, RotationDecision.ABORT)
    assert ended.rotation is not None and ended.rotation.phase is RotationPhase.ABORTED
    assert [row.version for row in await world.rows(SecretUseStore)] == [1]
    assert await rotations.rotating() == set()
    assert (await world.audited())[-1] == (EDITOR.email, "decideSecretRotation", "db")


async def test_a_rotation_without_consumers_ends_with_the_old_version_revoked(
    world: MemoryOperations, secrets: Secrets
) -> None:
    secret = await use(secrets)
    plan = replace(PLAN, automatic=True)
    await secrets.save(EDITOR, "db", SecretChange(b"two", plan=plan))
    rotations = Rotations(world.context)
    for _ in range(4):
        await rotations.advance(secret.id)
        await world.clock.advance(1)
    (after,) = await world.rows(SecretStore)
    assert after.rotation is not None and after.rotation.phase is RotationPhase.REVOKED
    assert (after.current, await values(world, after)) == (2, {1: None, 2: b"two"})
    await rotations.advance("none")


async def test_a_source_needs_permission_and_replaces_the_value(
    world: MemoryOperations, secrets: Secrets
) -> None:
    with pytest.raises(Forbidden):
        await secrets.save(EDITOR, "db", SecretChange(source=SOURCE))
    assert await world.rows(SecretStore) == []
    made = await secrets.save(ADMIN, "db", SecretChange(source=SOURCE))
    assert (made.source, made.due_at) == (SOURCE, START)
    after = await secrets.save(EDITOR, "db", SecretChange(b"one"))
    assert (after.source, after.due_at, after.current) == (None, None, 1)


async def test_a_due_source_is_read_once(world: MemoryOperations, secrets: Secrets) -> None:
    secret = await secrets.save(ADMIN, "db", SecretChange(source=SOURCE, refresh_s=60))
    sources = FakeSources(b"one")
    refresher = SecretRefresher(world.context, sources)
    assert await refresher.due() == [secret.id]
    for _ in range(2):
        await refresher.refresh(secret.id)
    await refresher.refresh("none")
    assert sources.projects == [DEFAULT_PROJECT] and await refresher.due() == []
    (after,) = await world.rows(SecretStore)
    assert (after.current, after.refreshed_at, after.problem) == (1, START, "")
    assert await values(world, after) == {1: b"one"}
    await world.clock.advance(60)
    assert await refresher.due() == [secret.id]


@pytest.mark.parametrize("answer", [NotFound("no such variable"), b""])
async def test_an_error_of_a_source_keeps_the_last_value(
    world: MemoryOperations, secrets: Secrets, answer: bytes | TowlineError
) -> None:
    secret = await secrets.save(ADMIN, "db", SecretChange(source=SOURCE, refresh_s=60))
    await SecretRefresher(world.context, FakeSources(b"one")).refresh(secret.id)
    await world.clock.advance(60)
    await SecretRefresher(world.context, FakeSources(answer)).refresh(secret.id)
    (after,) = await world.rows(SecretStore)
    assert after.problem and (after.current, after.refreshed_at) == (1, START)
    assert world.published[-1] == (SECRET, secret.id)


class Interrupted(FakeSources):
    """Has something happen while the source is read."""

    def __init__(self, happening: Callable[[], Awaitable[object]]) -> None:
        super().__init__(b"late")
        self.happening = happening

    async def read(self, source: SecretSource, project: str) -> bytes:
        await self.happening()
        return await super().read(source, project)


@pytest.mark.parametrize("change", ["value", "source", "deleted"])
async def test_a_value_that_was_read_too_late_is_dropped(
    world: MemoryOperations, secrets: Secrets, change: str
) -> None:
    """A user has set a value or another source meanwhile, or deleted the secret."""
    secret = await secrets.save(ADMIN, "db", SecretChange(source=SOURCE))
    happenings = {
        "value": lambda: secrets.save(EDITOR, "db", SecretChange(b"set by hand")),
        "source": lambda: secrets.save(ADMIN, "db", SecretChange(source=EnvironmentSource("X"))),
        "deleted": lambda: secrets.delete(EDITOR, secret.id),
    }
    await SecretRefresher(world.context, Interrupted(happenings[change])).refresh(secret.id)
    rows = await world.rows(SecretStore)
    found = [await values(world, row) for row in rows]
    assert found == {"value": [{1: b"set by hand"}], "source": [{}], "deleted": []}[change]


async def test_a_source_is_not_read_during_a_rotation(
    world: MemoryOperations, secrets: Secrets
) -> None:
    secret = await secrets.save(ADMIN, "db", SecretChange(source=SOURCE, plan=PLAN, refresh_s=60))
    for value in (b"one", b"two", b"three"):
        sources = FakeSources(value)
        await SecretRefresher(world.context, sources).refresh(secret.id)
        await world.clock.advance(60)
    assert sources.projects == []
    (row,) = await world.rows(SecretStore)
    assert row.rotating and (row.current, row.newest) == (1, 2)


async def test_a_value_that_did_not_change_is_no_news(
    world: MemoryOperations, secrets: Secrets
) -> None:
    secret = await secrets.save(ADMIN, "db", SecretChange(source=SOURCE, refresh_s=60))
    refresher = SecretRefresher(world.context, FakeSources(b"one"))
    await refresher.refresh(secret.id)
    world.bus.published.clear()
    await world.clock.advance(60)
    await refresher.refresh(secret.id)
    assert world.published == []
    (row,) = await world.rows(SecretStore)
    assert (row.newest, row.refreshed_at) == (1, world.clock.now())
    long = SecretRefresher(world.context, FakeSources(NotFound("x" * 1001)))
    await world.clock.advance(60)
    await long.refresh(secret.id)
    (row,) = await world.rows(SecretStore)
    assert row.problem == "x" * 1000


async def test_a_refresh_is_requested(world: MemoryOperations, secrets: Secrets) -> None:
    plain = await secrets.save(EDITOR, "plain", SecretChange(b"x"))
    made = await secrets.save(ADMIN, "db", SecretChange(source=SOURCE))
    refresher = SecretRefresher(world.context, FakeSources(b"one"))
    await refresher.refresh(made.id)
    await refresher.request(EDITOR, made.id)
    assert await refresher.due() == [made.id]
    assert (await world.audited())[-1] == (EDITOR.email, "refreshSecret", "db")
    for actor, id, error in (
        (EDITOR, plain.id, Conflict),
        (EDITOR, "none", NotFound),
        (VIEWER, made.id, Forbidden),
        (NOBODY, made.id, NotFound),
        (ANONYMOUS, made.id, Unauthenticated),
    ):
        with pytest.raises(error):
            await refresher.request(actor, id)


CALLS = {
    "save": lambda secrets, actor, id: secrets.save(actor, "db", SecretChange(b"new")),
    "delete": lambda secrets, actor, id: secrets.delete(actor, id),
    "revoke": lambda secrets, actor, id: secrets.revoke(actor, id, 1),
    "decide": lambda secrets, actor, id: secrets.decide(actor, id, RotationDecision.ABORT),
}


@pytest.mark.parametrize("name", sorted(CALLS))
@pytest.mark.parametrize(
    ("actor", "error"),
    [(VIEWER, Forbidden), (NOBODY, NotFound), (ANONYMOUS, Unauthenticated)],
    ids=["viewer", "nobody", "anonymous"],
)
async def test_a_change_needs_write_access(
    world: MemoryOperations,
    secrets: Secrets,
    name: str,
    actor: Actor,
    error: type[TowlineError],
) -> None:
    secret = await secrets.save(EDITOR, "db", SecretChange(b"one"))
    with pytest.raises(error):
        await CALLS[name](secrets, actor, secret.id)
    assert await world.rows(SecretStore) == [secret]
    assert len(await world.audited()) == 1


@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"save"}))
async def test_a_missing_secret_is_not_found(secrets: Secrets, name: str) -> None:
    with pytest.raises(NotFound):
        await CALLS[name](secrets, ADMIN, "none")
