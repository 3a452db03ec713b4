"""The kind of manifests for secrets."""

from controlplane.authorization import Actor
from controlplane.platform.kinds import KindWithOperations, Placement
from controlplane.platform.names import NameForm, check_any_name
from controlplane.platform.parts import Columns, row_of
from controlplane.platform.ports import Transaction
from controlplane.secrets.model.secret import NAME_SCHEMA, Secret
from controlplane.secrets.model.secret_source import SecretSource
from controlplane.secrets.operations.secrets import SecretChange, Secrets
from controlplane.secrets.ports import SecretStore
from controlplane.secrets.sources import BY_KIND


class SecretKind(KindWithOperations[Secret, Secrets]):
    """Secrets: references to external stores, or values, which are never returned."""

    name = "Secret"
    name_form = NameForm(NAME_SCHEMA, check_any_name)
    change = SecretChange
    port = SecretStore
    model = Secret
    hidden = ("project_id",)
    rename = {"plan": "rotation"}
    hints = {"SecretChange.value": str}
    plugins = {SecretSource: BY_KIND}
    sensitive = ("value",)

    async def secrets(self, tx: Transaction, row: Secret) -> Columns:
        return {"value": await self._operations.current_value(tx, row)}

    async def create(self, actor: Actor, placement: Placement, columns: Columns) -> str:
        change = _secret_change(columns | {"project_id": placement.project_id})
        return (await self._operations.save(actor, placement.name, change)).id

    async def update(self, actor: Actor, row: Secret, columns: Columns) -> None:
        await self._operations.save(actor, row.name, _secret_change(columns))


def _secret_change(columns: Columns) -> SecretChange:
    value = columns.get("value")
    return row_of(SecretChange, columns | {"value": value.encode() if value else None})
