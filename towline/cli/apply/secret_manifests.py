"""Applies manifests of secrets and of their use by services.

Values are write-only. The planner always sends them; an unchanged value creates no new version.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

from core.errors import Invalid, NotFound
from core.json_object import JsonObject
from towline.cli.apply.manifests import Manifest
from towline.cli.projects.find import find_project
from towline.cli.secrets import generated as operations
from towline.cli.secrets.generated import Secret
from towline.cli.services.find import find_service
from towline.cli.shell.output import Row
from towline.cli.shell.session import found_or_none
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import SecretAttributes, SecretUseAttributes

_PLAIN = ("description", "refreshSeconds", "rotation")


class SecretPlanner:
    """Applies secrets and their uses; with `dry_run`, only prints the changes."""

    def __init__(self, api: GraphQLApi, *, dry_run: bool) -> None:
        self._api = api
        self._dry_run = dry_run

    def secret(self, manifest: Manifest, value: str | None) -> Iterator[str]:
        """Creates or updates a secret; `value` comes from the manifest's source."""
        before = self._found(manifest.fields["name"])
        if self._dry_run:
            sign, done = ("+", "be created") if before is None else ("~", "get this value if new")
            yield f"{sign} {manifest.label} would {done}"
            return
        attributes = self._attributes(manifest.fields, value, is_new=before is None)
        after = operations.save_secret(self._api, manifest.fields["name"], attributes)
        if before is None:
            yield f"+ {manifest.label} created"
        elif _state(before) == _state(after):
            yield f"= {manifest.label} unchanged"
        else:
            yield f"~ {manifest.label} changed"
            yield f"  version: {before['newestVersion']} → {after['newestVersion']}"

    def uses(self, manifest: Manifest) -> Iterator[str]:
        """Sets the secrets that a service uses, if its manifest has the field `secrets`."""
        wanted: Mapping[str, str] | None = manifest.fields.get("secrets")
        if wanted is None:
            return
        fields = manifest.fields
        try:
            id = find_service(self._api, f"{fields['cluster']}/{fields['name']}")["id"]
            held = operations.service_secrets(self._api, id)
        except NotFound:
            if not self._dry_run:
                raise
            id, held = "", []
        before = {use["name"]: use["secretName"] for use in held}
        if before == dict(wanted):
            return
        if not self._dry_run:
            uses: list[SecretUseAttributes] = [
                {"name": name, "secretId": self._id(secret)} for name, secret in wanted.items()
            ]
            operations.use_secrets(self._api, id, uses)
        for name in sorted(before.keys() | wanted.keys()):
            if before.get(name) != wanted.get(name):
                yield f"  secrets {name}: {before.get(name)} → {wanted.get(name)}"

    def _attributes(
        self, fields: JsonObject, value: str | None, *, is_new: bool
    ) -> "SecretAttributes":
        given: JsonObject = {name: fields[name] for name in _PLAIN if name in fields}
        if value is not None:
            given["valueBase64"] = base64.b64encode(value.encode()).decode()
        if "source" in fields:
            source = dict(fields["source"])
            given["source"] = {**source, "kind": str(source.get("kind", "")).upper()}
        if "project" in fields and is_new:
            given["projectId"] = find_project(self._api, fields["project"])["id"]
        return cast("SecretAttributes", given)

    def _found(self, name: str) -> Secret | None:
        return found_or_none(lambda: operations.secret(self._api, name))

    def _id(self, name: str) -> str:
        found = self._found(name)
        if found is None:
            raise Invalid(f"could not find secret {name!r}", field="secrets")
        return found["id"]


def _state(secret: Secret) -> Row:
    """Fields of a secret that a manifest can change."""
    return {
        "newestVersion": secret["newestVersion"],
        "description": secret["description"],
        "source": secret["source"],
        "refreshSeconds": secret["refreshSeconds"],
    }
