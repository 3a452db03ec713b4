"""Secrets in the API, without their values."""

import base64
import binascii
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Self

import strawberry

from controlplane.access.api.loading import with_projects
from controlplane.access.api.types import ProjectType
from controlplane.platform.context import SECRET
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.deltas import deltas
from controlplane.platform.graphql.derive import Draft, FieldValues, Output, computed, draft, output
from controlplane.platform.graphql.plugin_inputs import (
    enum_of_kinds,
    settings_from,
    with_settings_of,
)
from controlplane.platform.graphql.resource_fields import ResourceFields, each
from controlplane.secrets.model.data_keys import DataKey
from controlplane.secrets.model.generated import ValueAlphabet, ValueGenerator
from controlplane.secrets.model.rotation import (
    Rotation,
    RotationDecision,
    RotationPhase,
    RotationPlan,
)
from controlplane.secrets.model.secret import Secret, SecretVersion
from controlplane.secrets.model.secret_source import SecretSource
from controlplane.secrets.operations.keys import DataKeyOperations, KeyState
from controlplane.secrets.operations.refresh import SecretRefresher
from controlplane.secrets.operations.secrets import SecretChange, Secrets, UseView
from controlplane.secrets.sources import BY_KIND, SOURCES
from controlplane.services.api.inputs import SecretUseAttributes, secrets_by_name
from controlplane.services.model.parts import SecretUse
from core.errors import Invalid

_SourceKind = enum_of_kinds("SecretSourceKind", SOURCES, "External store of a secret's value.")
_PLAN_NAMES = {"soak_seconds": "soak_s", "timeout_seconds": "timeout_s"}
_ROTATION_NAMES = {"old_version": "old", "new_version": "new", "started_by": "by", **_PLAN_NAMES}
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
    def of(cls, row: SecretSource) -> "SecretSourceType":
        values = row.values()
        reader = values.get("reader_id")
        return cls(
            kind=row.kind,
            store=values.get("store"),
            path=values.get("path"),
            key=values["key"],
            reader_id=strawberry.ID(reader) if reader else None,
        )


@output(Rotation, rename=_ROTATION_NAMES, hide={"waiting"}, nullable={"reason"})
class SecretRotation(Output[Rotation]):
    """Two-phase rotation of a secret: services move to the new version before the old one is
    revoked."""


strawberry.enum(ValueAlphabet, name="SecretAlphabet")


@output(ValueGenerator)
class SecretGenerator(Output[ValueGenerator]):
    """Form of a generated value."""


@draft(ValueGenerator, publish_defaults=True)
class SecretGeneratorAttributes(Draft[ValueGenerator]):
    """Form of a generated value."""


@output(RotationPlan, rename=_PLAN_NAMES)
class SecretRotationPlan(Output[RotationPlan]):
    """Plan for moving services to a new value of a secret."""


@output(
    Secret,
    rename={
        "current_version": "current",
        "newest_version": "newest",
        "refresh_seconds": "refresh_s",
        "rotation_plan": "plan",
    },
    hide={"project_id", "due_at"},
    nullable={"description", "current_version", "newest_version", "problem", "sealed_value"},
)
class SecretType(Output[Secret]):
    """A named secret value with versions. Values are never returned."""

    source: SecretSourceType | None = computed(
        lambda secret: SecretSourceType.of(secret.source) if secret.source else None
    )
    project: ProjectType | None
    """Project of the secret. Null if none was set."""


@output(SecretVersion, hide={"secret_id", "sealed"})
class SecretVersionType(Output[SecretVersion]):
    """A version of a secret. The value of a revoked version is destroyed."""


@output(SecretUse, hide={"sequence"})
class SecretUseType(Output[SecretUse]):
    """Use of a secret by a service."""

    secret_name: str
    """Name of the secret."""
    service_name: str
    """Name of the service."""
    cluster_id: strawberry.ID
    """ID of the cluster."""
    applied: bool
    """True if the agent has applied this version."""

    @classmethod
    def of_view(cls, view: UseView) -> Self:
        return cls.of(
            view.use,
            secret_name=view.secret.name,
            service_name=view.service.name,
            cluster_id=view.service.cluster_id,
            applied=view.applied,
        )


@output(DataKey, hide={"wrapped"})
class DataKeyType(Output[DataKey]):
    """A data encryption key, encrypted with a key encryption key."""


@output(KeyState, hide={"current"})
class EncryptionKeys(Output[KeyState]):
    """Encryption keys of the installation."""

    current_id: strawberry.ID | None = computed(
        lambda state: state.current.id if state.current else None
    )
    """ID of the current data key. Null before the first one."""


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

    def source(self) -> SecretSource:
        return settings_from(BY_KIND[self.kind], self, "source")


@draft(RotationPlan, rename=_PLAN_NAMES, publish_defaults=True)
class SecretRotationAttributes(Draft[RotationPlan]):
    """Settings of a two-phase rotation."""


@draft(
    SecretChange,
    rename={"refresh_seconds": "refresh_s", "rotation": "plan"},
    hide={"value", "source"},
)
class SecretAttributes(Draft[SecretChange]):
    """Fields of a secret. A field that is null or absent stays as it is. Give at most one of
    `value`, `valueBase64`, `sealedValue`, `source` and `generate`."""

    value: str | None = None
    """New value as text. Limit: 512 KiB."""
    value_base64: str | None = None
    """New value as base64. Limit: 512 KiB."""
    source: SecretSourceAttributes | None = None
    """External source."""

    def field_values(self) -> FieldValues:
        return {
            "value": _decoded_value(self.value, self.value_base64),
            "source": self.source.source() if self.source else None,
            **super().field_values(),
        }


def _decoded_value(text: str | None, encoded: str | None) -> bytes | None:
    if text is not None and encoded is not None:
        raise Invalid("give either value or valueBase64", field="value")
    if text is not None:
        return text.encode()
    try:
        return None if encoded is None else base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("is not valid base64", field="valueBase64") from None


_SECRETS = ResourceFields(
    "secret", Secrets, SecretType, with_projects(SecretType), is_nullable=False
)


@strawberry.type
class SecretQuery:
    secret = _SECRETS.get(Secrets.get)
    """A secret without its value, by ID or name."""
    secrets = _SECRETS.page(Secrets.page)
    """Secrets.

    Args:
        q: Text to search for in names and descriptions. Limit: 200 characters.
    """
    secret_versions = _SECRETS.related(
        Secrets.versions, SecretVersionType, each(SecretVersionType.of)
    )
    """Versions of a secret, newest first."""
    secret_consumers = _SECRETS.related(
        Secrets.consumers, SecretUseType, each(SecretUseType.of_view)
    )
    """Services that use a secret, with their versions."""

    @strawberry.field
    async def service_secrets(self, info: Info, service_id: strawberry.ID) -> list[SecretUseType]:
        """Secrets that a service uses."""
        views = await info.context[Secrets].used_by(info.context.actor, service_id)
        return [SecretUseType.of_view(view) for view in views]

    @strawberry.field
    async def encryption_keys(self, info: Info) -> EncryptionKeys:
        """Encryption keys of the installation."""
        return EncryptionKeys.of(await info.context[DataKeyOperations].state(info.context.actor))


@strawberry.type
class SecretMutation:
    save_secret = _SECRETS.call(Secrets.save, SecretAttributes)
    """Creates or updates the secret with this name.

    Args:
        name: Name of the secret. Limit: 128 characters.
        attributes: Fields of the secret.
    """
    delete_secret = _SECRETS.action(Secrets.delete)
    """Deletes a secret that no service uses, with all its versions."""

    @strawberry.mutation
    async def use_secrets(
        self, info: Info, service_id: strawberry.ID, uses: list[SecretUseAttributes]
    ) -> list[SecretUseType]:
        """Replaces the secrets that a service uses.

        Args:
            uses: Secrets. Limit: 200.
        """
        secrets = info.context[Secrets]
        views = await secrets.use(info.context.actor, service_id, secrets_by_name(uses))
        return [SecretUseType.of_view(view) for view in views]

    revoke_secret_version = _SECRETS.call(Secrets.revoke)
    """Destroys the value of a version that no service uses.

    Args:
        number: Version number.
    """
    decide_secret_rotation = _SECRETS.call(Secrets.decide)
    """Resumes, completes or aborts the active rotation of a secret.

    Args:
        decision: Decision.
    """

    @strawberry.mutation
    async def refresh_secret(self, info: Info, id: strawberry.ID) -> SecretType:
        """Reads the source of a secret now.

        Args:
            id: ID of the secret.
        """
        row = await info.context[SecretRefresher].request(info.context.actor, id)
        return await _SECRETS.one(info, row)

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
        return deltas(info, SECRET, id, since, _secret_type, SecretDelta)


async def _secret_type(info: Info, id: str) -> SecretType:
    row = await info.context[Secrets].get(info.context.actor, id)
    return await _SECRETS.one(info, row)
