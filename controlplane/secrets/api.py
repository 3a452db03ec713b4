"""Secrets in the API, without their values."""

import base64
import binascii
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime

import strawberry

from controlplane.access.api.loading import projects_of
from controlplane.access.api.types import ProjectType
from controlplane.platform.context import SECRET
from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Context, Info
from controlplane.platform.graphql.deltas import deltas
from controlplane.platform.graphql.plugin_inputs import (
    enum_of_kinds,
    settings_from,
    with_settings_of,
)
from controlplane.secrets.model.data_keys import DataKey as KeyRow
from controlplane.secrets.model.rotation import Rotation as RotationRow
from controlplane.secrets.model.rotation import RotationDecision, RotationPhase, RotationPlan
from controlplane.secrets.model.secret import Secret as SecretRow
from controlplane.secrets.model.secret import SecretVersion as VersionRow
from controlplane.secrets.model.secret_source import SecretSource as SourceRow
from controlplane.secrets.operations.keys import DataKeyOperations, KeyState
from controlplane.secrets.operations.refresh import SecretRefresher
from controlplane.secrets.operations.secrets import SecretChange, Secrets, UseView
from controlplane.secrets.sources import BY_KIND, SOURCES
from controlplane.services.api.inputs import SecretUseAttributes, secrets_by_name
from core.errors import Invalid

_SourceKind = enum_of_kinds("SecretSourceKind", SOURCES, "External store of a secret's value.")
strawberry.enum(RotationPhase, name="SecretRotationPhase")
strawberry.enum(RotationDecision, name="SecretRotationDecision")


@strawberry.type
class SecretSourceType:
    """External source of a secret value."""

    kind: str = strawberry.field(graphql_type=_SourceKind)
    """Kind of source."""
    store: str | None
    """Name of the Vault in the settings, or handle of the cluster. Null for an environment
    variable."""
    path: str | None
    """Path in the Vault, or `namespace/name` of the Kubernetes Secret. Null for an environment
    variable."""
    key: str
    """Key in the Vault secret or Kubernetes Secret, or name of the variable without its prefix."""
    reader_id: strawberry.ID | None
    """ID of the service account that reads the Kubernetes Secret. Null for other sources."""

    @classmethod
    def of(cls, row: SourceRow) -> "SecretSourceType":
        values = row.values()
        reader = values.get("reader_id")
        return cls(
            kind=row.kind,
            store=values.get("store"),
            path=values.get("path"),
            key=values["key"],
            reader_id=strawberry.ID(reader) if reader else None,
        )


@strawberry.type
class SecretRotation:
    """Two-phase rotation of a secret: services move to the new version before the old one is
    revoked."""

    phase: RotationPhase
    """Current phase."""
    old_version: int
    """Number of the old version."""
    new_version: int
    """Number of the new version."""
    batch: int
    """Number of services that move at the same time."""
    soak_seconds: int
    """Seconds for which all services must stay healthy."""
    timeout_seconds: int
    """Seconds for a service to become healthy."""
    automatic: bool
    """True if the old version is revoked without a decision."""
    reason: str | None
    """Reason for a stop. Null if the rotation is not stopped."""
    started_by: str
    """E-mail address of the user who started the rotation."""
    started_at: datetime
    """Start of the rotation."""
    healthy_since: datetime | None
    """Time since which all services are healthy with the new version. Null before that."""
    ended_at: datetime | None
    """End of the rotation. Null while it is active."""

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
            started_by=row.by,
            started_at=row.started_at,
            healthy_since=row.healthy_since,
            ended_at=row.ended_at,
        )


@strawberry.type
class SecretType:
    """A named secret value with versions. Values are never returned."""

    id: strawberry.ID
    name: str
    """Unique name."""
    description: str | None
    """Free text."""
    current_version: int | None
    """Version that services follow. Null before the first value."""
    newest_version: int | None
    """Highest version number. Null before the first value."""
    source: SecretSourceType | None
    """External source. Null for a value stored here."""
    refresh_seconds: int
    """Seconds between two reads of the source."""
    refreshed_at: datetime | None
    """Time of the last read of the source."""
    problem: str | None
    """Error of the last read of the source. Null if it succeeded."""
    rotation: SecretRotation | None
    """Latest rotation. Null if there was none."""
    project: ProjectType | None
    """Project of the secret. Null if none was set."""
    inserted_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: SecretRow, project: ProjectType | None = None) -> "SecretType":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            description=row.description or None,
            current_version=row.current or None,
            newest_version=row.newest or None,
            source=SecretSourceType.of(row.source) if row.source else None,
            refresh_seconds=row.refresh_s,
            refreshed_at=row.refreshed_at,
            problem=row.problem or None,
            rotation=SecretRotation.of(row.rotation) if row.rotation else None,
            project=project,
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
        )


@strawberry.type
class SecretVersionType:
    """A version of a secret. The value of a revoked version is destroyed."""

    id: strawberry.ID
    number: int
    """Version number, from 1."""
    inserted_at: datetime
    actor: str
    """E-mail address of the user who saved the value, or name of the source."""
    revoked_at: datetime | None
    """Time of revocation. Null while the value exists."""

    @classmethod
    def of(cls, row: VersionRow) -> "SecretVersionType":
        return cls(
            id=strawberry.ID(row.id),
            number=row.number,
            inserted_at=row.inserted_at,
            actor=row.actor,
            revoked_at=row.revoked_at,
        )


@strawberry.type
class SecretUseType:
    """Use of a secret by a service."""

    id: strawberry.ID
    name: str
    """Name in the manifests, as in `${towline.secret:NAME}`."""
    secret_id: strawberry.ID
    """ID of the secret."""
    secret_name: str
    """Name of the secret."""
    service_id: strawberry.ID
    """ID of the service."""
    service_name: str
    """Name of the service."""
    cluster_id: strawberry.ID
    """ID of the cluster."""
    version: int
    """Version that the service uses."""
    pinned: bool
    """True if the service does not follow new versions."""
    applied: bool
    """True if the agent has applied this version."""
    changed_at: datetime
    """Time at which the service got this version."""

    @classmethod
    def of(cls, view: UseView) -> "SecretUseType":
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
class DataKeyType:
    """A data encryption key, encrypted with a key encryption key."""

    id: strawberry.ID
    kek: str
    """Name of the key encryption key."""
    inserted_at: datetime
    begins_at: datetime
    """Time from which the key encrypts new values."""

    @classmethod
    def of(cls, row: KeyRow) -> "DataKeyType":
        return cls(
            id=strawberry.ID(row.id),
            kek=row.kek,
            inserted_at=row.inserted_at,
            begins_at=row.begins_at,
        )


@strawberry.type
class EncryptionKeys:
    """Encryption keys of the installation."""

    kek: str
    """Name of the current key encryption key."""
    current_id: strawberry.ID | None
    """ID of the current data key. Null before the first one."""
    outdated: int
    """Number of values still encrypted with older keys."""
    undecryptable: list[str]
    """Values that cannot be re-encrypted, since they cannot be decrypted."""
    keys: list[DataKeyType]
    """Data keys."""

    @classmethod
    def of(cls, state: KeyState) -> "EncryptionKeys":
        return cls(
            kek=state.kek,
            current_id=strawberry.ID(state.current.id) if state.current else None,
            outdated=state.outdated,
            undecryptable=list(state.undecryptable),
            keys=[DataKeyType.of(key) for key in state.keys],
        )


@strawberry.type
class SecretDelta:
    """A change to a secret."""

    id: strawberry.ID
    """ID of the secret."""
    payload: SecretType | None
    """The secret. Null after its deletion."""
    at: datetime
    """Time of this message. Give it as `since` to receive missed changes."""


@strawberry.input
@with_settings_of(SOURCES, "SecretSource")
class SecretSourceAttributes:
    """External source of a secret value."""

    kind: str = strawberry.field(graphql_type=_SourceKind)
    """Kind of source."""

    def source(self) -> SourceRow:
        return settings_from(BY_KIND[self.kind], self, "source")


@strawberry.input
class SecretRotationAttributes:
    """Settings of a two-phase rotation."""

    batch: int = 1
    """Number of services that move at the same time. Default: 1. Limit: 1,000."""
    soak_seconds: int = 60
    """Seconds for which all services must stay healthy. Default: 60. Limit: 604,800."""
    timeout_seconds: int = 900
    """Seconds for a service to become healthy. Default: 900. Limit: 604,800."""
    automatic: bool = False
    """True revokes the old version without a decision. Default: false."""

    def plan(self) -> RotationPlan:
        return RotationPlan(self.batch, self.soak_seconds, self.timeout_seconds, self.automatic)


@strawberry.input
class SecretAttributes:
    """Fields of a secret. A field that is null or absent stays as it is. Give at most one of
    `value`, `valueBase64` and `source`."""

    value: str | None = None
    """New value as text. Limit: 512 KiB."""
    value_base64: str | None = None
    """New value as base64. Limit: 512 KiB."""
    source: SecretSourceAttributes | None = None
    """External source."""
    description: str | None = None
    """Free text. Limit: 1,000 characters."""
    project_id: strawberry.ID | None = None
    """ID of the project. Default: the default project."""
    refresh_seconds: int | None = None
    """Seconds between two reads of the source, from 10 to 604,800. Default: 300."""
    rotation: SecretRotationAttributes | None = None
    """Rotation settings. Default: services get the new value at once."""

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
        raise Invalid("is not valid base64", field="valueBase64") from None


@strawberry.type
class SecretQuery:
    @strawberry.field
    async def secret(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> SecretType | None:
        """A secret without its value, by ID or name.

        Args:
            id: ID of the secret.
        """
        row = await info.context[Secrets].get(info.context.actor, id, name)
        return (await _types(info.context, [row]))[0]

    @strawberry.field
    async def secrets(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[SecretType]:
        """Secrets.

        Args:
            q: Text to search for in names and descriptions. Limit: 200 characters.
        """
        asked = relay.page_query(first, after, q)
        page = await info.context[Secrets].page(info.context.actor, asked)
        return await relay.connection_of_many(info.context, page, asked, _types)

    @strawberry.field
    async def secret_versions(self, info: Info, id: strawberry.ID) -> list[SecretVersionType]:
        """Versions of a secret, newest first.

        Args:
            id: ID of the secret.
        """
        rows = await info.context[Secrets].versions(info.context.actor, id)
        return [SecretVersionType.of(row) for row in rows]

    @strawberry.field
    async def secret_consumers(self, info: Info, id: strawberry.ID) -> list[SecretUseType]:
        """Services that use a secret, with their versions.

        Args:
            id: ID of the secret.
        """
        views = await info.context[Secrets].consumers(info.context.actor, id)
        return [SecretUseType.of(view) for view in views]

    @strawberry.field
    async def service_secrets(self, info: Info, service_id: strawberry.ID) -> list[SecretUseType]:
        """Secrets that a service uses.

        Args:
            service_id: ID of the service.
        """
        views = await info.context[Secrets].used_by(info.context.actor, service_id)
        return [SecretUseType.of(view) for view in views]

    @strawberry.field
    async def encryption_keys(self, info: Info) -> EncryptionKeys:
        """Encryption keys of the installation."""
        return EncryptionKeys.of(await info.context[DataKeyOperations].state(info.context.actor))


@strawberry.type
class SecretMutation:
    @strawberry.mutation
    async def save_secret(self, info: Info, name: str, attributes: SecretAttributes) -> SecretType:
        """Creates or updates the secret with this name.

        Args:
            name: Name of the secret. Limit: 128 characters.
            attributes: Fields of the secret.
        """
        context = info.context
        row = await context[Secrets].save(context.actor, name, attributes.change())
        return (await _types(context, [row]))[0]

    @strawberry.mutation
    async def delete_secret(self, info: Info, id: strawberry.ID) -> SecretType:
        """Deletes a secret that no service uses, with all its versions.

        Args:
            id: ID of the secret.
        """
        row = await info.context[Secrets].delete(info.context.actor, id)
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation
    async def use_secrets(
        self, info: Info, service_id: strawberry.ID, uses: list[SecretUseAttributes]
    ) -> list[SecretUseType]:
        """Replaces the secrets that a service uses.

        Args:
            service_id: ID of the service.
            uses: Secrets. Limit: 200.
        """
        verbs = info.context[Secrets]
        views = await verbs.use(info.context.actor, service_id, secrets_by_name(uses))
        return [SecretUseType.of(view) for view in views]

    @strawberry.mutation
    async def revoke_secret_version(self, info: Info, id: strawberry.ID, number: int) -> SecretType:
        """Destroys the value of a version that no service uses.

        Args:
            id: ID of the secret.
            number: Version number.
        """
        row = await info.context[Secrets].revoke(info.context.actor, id, number)
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation
    async def decide_secret_rotation(
        self, info: Info, id: strawberry.ID, decision: RotationDecision
    ) -> SecretType:
        """Resumes, completes or aborts the active rotation of a secret.

        Args:
            id: ID of the secret.
            decision: Decision.
        """
        row = await info.context[Secrets].decide(info.context.actor, id, decision)
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation
    async def refresh_secret(self, info: Info, id: strawberry.ID) -> SecretType:
        """Reads the source of a secret now.

        Args:
            id: ID of the secret.
        """
        row = await info.context[SecretRefresher].ask(info.context.actor, id)
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation
    async def rotate_encryption_keys(self, info: Info) -> DataKeyType:
        """Creates a data key. It encrypts new values after one minute; existing values follow in
        the background."""
        return DataKeyType.of(await info.context[DataKeyOperations].rotate(info.context.actor))


@strawberry.type
class SecretSubscription:
    @strawberry.subscription
    def secret_delta(
        self, info: Info, id: strawberry.ID, since: datetime | None = None
    ) -> AsyncGenerator[SecretDelta, None]:
        """Changes to a secret and its rotation. A subscriber may receive a change twice.

        Args:
            id: ID of the secret.
        """
        return deltas(info, SECRET, id, since, _secret, SecretDelta)


async def _secret(context: Context, id: str) -> SecretType:
    row = await context[Secrets].get(context.actor, id)
    return (await _types(context, [row]))[0]


async def _types(context: Context, rows: Sequence[SecretRow]) -> list[SecretType]:
    projects = await projects_of(context, [row.project_id for row in rows])
    return [SecretType.of(row, projects.get(row.project_id or "")) for row in rows]
