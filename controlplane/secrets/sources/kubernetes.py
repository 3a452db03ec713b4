"""Secrets of clusters."""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Annotated

from controlplane.access.model.users import UserKind
from controlplane.access.operations.delegation import require_permissions_of_user
from controlplane.access.ports import UserStore
from controlplane.authorization import Actor, Resource, ResourceKind, Verb, require
from controlplane.platform.context import OperationContext
from controlplane.platform.names import is_label
from controlplane.platform.plugin_settings import Form, Setting
from controlplane.platform.ports import Transaction
from controlplane.secrets.model.secret_source import (
    MAX_PATH_LENGTH,
    ExternalSecretStores,
    SecretSource,
)
from core.errors import Invalid, NotFound, Unavailable
from core.json_object import JsonMapping

# Names of Kubernetes Secrets: RFC 1123 subdomains.
_SUBDOMAIN = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class KubernetesSource(SecretSource):
    """A Secret in a cluster."""

    kind = "KUBERNETES"
    title = "Kubernetes Secret"

    cluster: Annotated[str, Setting("Cluster", max_length=MAX_PATH_LENGTH, name="store")]
    """Handle of the cluster."""
    path: Annotated[str, Setting("Secret", max_length=MAX_PATH_LENGTH)]
    """Namespace and name of the Secret, such as `shop/db`."""
    data_key: Annotated[str, Setting("Key", max_length=MAX_PATH_LENGTH, name="key")]
    """Key in the data of the Secret."""
    reader_id: Annotated[str, Setting("Service account", form=Form.SERVICE_ACCOUNT)]
    """ID of the service account that reads the Secret."""

    async def check_access(self, context: OperationContext, tx: Transaction, actor: Actor) -> None:
        """Requires every permission of the service account that reads."""
        require(actor, Verb.ADMINISTER, Resource.whole(ResourceKind.USER))
        user = await tx[UserStore].get(self.reader_id)
        if user is None or user.kind is not UserKind.SERVICE_ACCOUNT:
            raise Invalid("is not a service account", field="source.readerId")
        await require_permissions_of_user(tx, actor, user, context.clock.now())

    async def read(self, stores: ExternalSecretStores, project: str) -> bytes:
        namespace, _, name = self.path.partition("/")
        if not is_label(namespace) or not _SUBDOMAIN.fullmatch(name):
            raise Invalid("the path must be namespace/name")
        if stores.live is None:
            raise Unavailable("this process has no access to clusters")
        reader = await stores.actor_of(self.reader_id)
        path = f"/api/v1/namespaces/{namespace}/secrets/{name}"
        return _decode_value(await stores.live.read(reader, self.cluster, path), self.data_key)


def _decode_value(manifest: JsonMapping, key: str) -> bytes:
    data = manifest.get("data")
    value = data.get(key) if isinstance(data, dict) else None
    if not isinstance(value, str):
        raise NotFound("the Secret has no such key")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise Unavailable("the cluster returned a value that is not base64") from None
