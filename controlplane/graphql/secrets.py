"""Secrets in the API: what is known of them, and never a value."""

import base64
import binascii
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime

import strawberry

from controlplane.domain.datakeys import DataKey as KeyRow
from controlplane.domain.rotation import Decision, RotationPhase, RotationPlan
from controlplane.domain.rotation import Rotation as RotationRow
from controlplane.domain.secrets import Secret as SecretRow
from controlplane.domain.secrets import SecretSource as SourceRow
from controlplane.domain.secrets import SecretVersion as VersionRow
from controlplane.domain.secrets import SourceKind
from controlplane.graphql import relay
from controlplane.graphql.access import Project
from controlplane.graphql.context import Context, Info
from controlplane.graphql.definitions import projects_of
from controlplane.graphql.deltas import RESUMABLE, deltas
from controlplane.graphql.inputs import SecretUseAttributes, wanted_secrets
from controlplane.usecases.deps import SECRET
from controlplane.usecases.keys import KeyState
from controlplane.usecases.secrets import SecretChange, UseView
from fleet.errors import Invalid

strawberry.enum(SourceKind, name="SecretSourceKind")
strawberry.enum(RotationPhase, name="SecretRotationPhase")
strawberry.enum(Decision, name="SecretRotationDecision")


@strawberry.type
class SecretSource:
    """Where a value is kept, if not here."""

    kind: SourceKind
    store: str | None
    path: str | None
    key: str
    reader_id: strawberry.ID | None

    @classmethod
    def of(cls, row: SourceRow) -> "SecretSource":
        reader = strawberry.ID(row.reader_id) if row.reader_id else None
        return cls(
            kind=row.kind,
            store=row.store or None,
            path=row.path or None,
            key=row.key,
            reader_id=reader,
        )


@strawberry.type
class SecretRotation:
    """A roll-out of a new version in two phases; `reason` says why it is held."""

    phase: RotationPhase
    old_version: int
    new_version: int
    batch: int
    soak_seconds: int
    timeout_seconds: int
    automatic: bool
    reason: str | None
    began_by: str
    began_at: datetime
    quiet_since: datetime | None
    ended_at: datetime | None

    @classmethod
    def of(cls, row: RotationRow) -> "SecretRotation":
        return cls(
            phase=row.phase,
            old_version=row.old,
            new_version=row.new,
            batch=row.plan.batch,
            soak_seconds=row.plan.soak_s,
            timeout_seconds=row.plan.timeout_s,
            automatic=row.plan.automatic,
            reason=row.reason or None,
            began_by=row.by,
            began_at=row.began_at,
            quiet_since=row.quiet_since,
            ended_at=row.ended_at,
        )


@strawberry.type
class Secret:
    """A named value in versions. `problem`: why its source could not be read last."""

    id: strawberry.ID
    name: str
    description: str | None
    current_version: int | None
    newest_version: int | None
    source: SecretSource | None
    refresh_seconds: int
    refreshed_at: datetime | None
    problem: str | None
    rotation: SecretRotation | None
    project: Project | None
    inserted_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: SecretRow, project: Project | None = None) -> "Secret":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            description=row.description or None,
            current_version=row.current or None,
            newest_version=row.newest or None,
            source=SecretSource.of(row.source) if row.source else None,
            refresh_seconds=row.refresh_s,
            refreshed_at=row.refreshed_at,
            problem=row.problem or None,
            rotation=SecretRotation.of(row.rotation) if row.rotation else None,
            project=project,
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
        )


@strawberry.type
class SecretVersion:
    """One value that a secret has had; a revoked one is destroyed."""

    id: strawberry.ID
    number: int
    inserted_at: datetime
    actor: str
    revoked_at: datetime | None

    @classmethod
    def of(cls, row: VersionRow) -> "SecretVersion":
        return cls(
            id=strawberry.ID(row.id),
            number=row.number,
            inserted_at=row.inserted_at,
            actor=row.actor,
            revoked_at=row.revoked_at,
        )


@strawberry.type
class SecretUse:
    """A service that uses a secret as `${towline.secret:name}`. `applied`: its agent has that
    version in the cluster; `pinned`: it stays at it."""

    id: strawberry.ID
    name: str
    secret_id: strawberry.ID
    secret_name: str
    service_id: strawberry.ID
    service_name: str
    cluster_id: strawberry.ID
    version: int
    pinned: bool
    applied: bool
    changed_at: datetime

    @classmethod
    def of(cls, view: UseView) -> "SecretUse":
        return cls(
            id=strawberry.ID(view.use.id),
            name=view.use.name,
            secret_id=strawberry.ID(view.secret.id),
            secret_name=view.secret.name,
            service_id=strawberry.ID(view.service.id),
            service_name=view.service.name,
            cluster_id=strawberry.ID(view.service.cluster_id),
            version=view.use.version,
            pinned=view.use.pinned,
            applied=view.applied,
            changed_at=view.use.changed_at,
        )


@strawberry.type
class DataKey:
    """A key that seals from `beginsAt` on, wrapped by the key-encryption key `kek`."""

    id: strawberry.ID
    kek: str
    inserted_at: datetime
    begins_at: datetime

    @classmethod
    def of(cls, row: KeyRow) -> "DataKey":
        return cls(
            id=strawberry.ID(row.id),
            kek=row.kek,
            inserted_at=row.inserted_at,
            begins_at=row.begins_at,
        )


@strawberry.type
class EncryptionKeys:
    """The keys of the installation. `behind`: so many values are still sealed with older ones.
    `unopened`: which of them cannot be sealed anew, because they do not open."""

    kek: str
    current_id: strawberry.ID | None
    behind: int
    unopened: list[str]
    keys: list[DataKey]

    @classmethod
    def of(cls, state: KeyState) -> "EncryptionKeys":
        return cls(
            kek=state.kek,
            current_id=strawberry.ID(state.current.id) if state.current else None,
            behind=state.behind,
            unopened=list(state.unopened),
            keys=[DataKey.of(one) for one in state.keys],
        )


@strawberry.type
class SecretDelta:
    """A secret that changed; `payload` is null once it has gone. `at` is as of services."""

    id: strawberry.ID
    payload: Secret | None
    at: datetime


@strawberry.input
class SecretSourceAttributes:
    """VAULT: a vault of the settings, a path, a key. KUBERNETES: a cluster's handle, its
    namespace/name, a key, the service account to read as. ENVIRONMENT: a variable, unprefixed."""

    kind: SourceKind
    key: str
    store: str = ""
    path: str = ""
    reader_id: strawberry.ID | None = None

    def source(self) -> SourceRow:
        return SourceRow(self.kind, self.key, self.store, self.path, self.reader_id or "")


@strawberry.input
class SecretRotationAttributes:
    """How a new value is rolled out: so many consumers at a time, each healthy within the timeout;
    once all have been healthy for the soak time the old value may be revoked."""

    batch: int = 1
    soak_seconds: int = 60
    timeout_seconds: int = 900
    automatic: bool = False

    def plan(self) -> RotationPlan:
        return RotationPlan(self.batch, self.soak_seconds, self.timeout_seconds, self.automatic)


@strawberry.input
class SecretAttributes:
    """What is left out stays. Give one of `value`, `valueBase64` and `source`; with `rotation` the
    new value is rolled out in two phases."""

    value: str | None = None
    value_base64: str | None = None
    source: SecretSourceAttributes | None = None
    description: str | None = None
    project_id: strawberry.ID | None = None
    refresh_seconds: int | None = None
    rotation: SecretRotationAttributes | None = None

    def change(self) -> SecretChange:
        return SecretChange(
            _value(self.value, self.value_base64),
            self.source.source() if self.source else None,
            self.description,
            self.project_id or None,
            self.refresh_seconds,
            self.rotation.plan() if self.rotation else None,
        )


def _value(text: str | None, encoded: str | None) -> bytes | None:
    if text is not None and encoded is not None:
        raise Invalid("give either value or valueBase64", field="value")
    if text is not None:
        return text.encode()
    try:
        return None if encoded is None else base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("is not base64", field="valueBase64") from None


@strawberry.type
class SecretQuery:
    @strawberry.field(description="A secret by id or name, without its value.")
    async def secret(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> Secret | None:
        row = await info.context.verbs.secrets.get(info.context.actor, id, name)
        return (await _types(info.context, [row]))[0]

    @strawberry.field(description="Secrets; `q` is looked for in names and descriptions.")
    async def secrets(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[Secret]:
        asked = relay.query(first, after, q)
        page = await info.context.verbs.secrets.page(info.context.actor, asked)
        return await relay.filled(info.context, page, asked, _types)

    @strawberry.field(description="The versions of a secret, newest first.")
    async def secret_versions(self, info: Info, id: strawberry.ID) -> list[SecretVersion]:
        rows = await info.context.verbs.secrets.versions(info.context.actor, id)
        return [SecretVersion.of(row) for row in rows]

    @strawberry.field(description="The services that use a secret, and which version each has.")
    async def secret_consumers(self, info: Info, id: strawberry.ID) -> list[SecretUse]:
        views = await info.context.verbs.secrets.consumers(info.context.actor, id)
        return [SecretUse.of(one) for one in views]

    @strawberry.field(description="The secrets that a service uses.")
    async def service_secrets(self, info: Info, service_id: strawberry.ID) -> list[SecretUse]:
        views = await info.context.verbs.secrets.used_by(info.context.actor, service_id)
        return [SecretUse.of(one) for one in views]

    @strawberry.field(description="The keys that seal what is sealed here.")
    async def encryption_keys(self, info: Info) -> EncryptionKeys:
        return EncryptionKeys.of(await info.context.verbs.keys.state(info.context.actor))


@strawberry.type
class SecretMutation:
    @strawberry.mutation(description="Create or change the secret of this name.")
    async def save_secret(self, info: Info, name: str, attributes: SecretAttributes) -> Secret:
        context = info.context
        row = await context.verbs.secrets.save(context.actor, name, attributes.change())
        return (await _types(context, [row]))[0]

    @strawberry.mutation(description="Delete a secret that no service uses, with all its values.")
    async def delete_secret(self, info: Info, id: strawberry.ID) -> Secret:
        row = await info.context.verbs.secrets.delete(info.context.actor, id)
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation(description="Let a service use exactly these secrets.")
    async def use_secrets(
        self, info: Info, service_id: strawberry.ID, uses: list[SecretUseAttributes]
    ) -> list[SecretUse]:
        verbs = info.context.verbs.secrets
        views = await verbs.use(info.context.actor, service_id, wanted_secrets(uses))
        return [SecretUse.of(one) for one in views]

    @strawberry.mutation(description="Destroy the value of a version that nobody uses.")
    async def revoke_secret_version(self, info: Info, id: strawberry.ID, number: int) -> Secret:
        row = await info.context.verbs.secrets.revoke(info.context.actor, id, number)
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation(description="Resume, end or abort the rotation that goes on.")
    async def decide_secret_rotation(
        self, info: Info, id: strawberry.ID, decision: Decision
    ) -> Secret:
        row = await info.context.verbs.secrets.decide(info.context.actor, id, decision)
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation(description="Read the source of a secret now.")
    async def refresh_secret(self, info: Info, id: strawberry.ID) -> Secret:
        row = await info.context.verbs.refreshing.ask(info.context.actor, id)
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation(
        description="Begin a new data key, and wrap all others anew. It seals after a minute; what "
        "is sealed follows in the background."
    )
    async def rotate_encryption_keys(self, info: Info) -> DataKey:
        return DataKey.of(await info.context.verbs.keys.rotate(info.context.actor))


@strawberry.type
class SecretSubscription:
    @strawberry.subscription(
        description=f"One secret as it changes, and how its rotation goes. {RESUMABLE}"
    )
    def secret_delta(
        self, info: Info, id: strawberry.ID, since: datetime | None = None
    ) -> AsyncGenerator[SecretDelta, None]:
        return deltas(info, SECRET, id, since, _secret, SecretDelta)


async def _secret(context: Context, id: str) -> Secret:
    row = await context.verbs.secrets.get(context.actor, id)
    return (await _types(context, [row]))[0]


async def _types(context: Context, rows: Sequence[SecretRow]) -> list[Secret]:
    projects = await projects_of(context, [one.project_id for one in rows])
    return [Secret.of(row, projects.get(row.project_id or "")) for row in rows]
