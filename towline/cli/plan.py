"""Applies manifests: compares them with the control plane, prints the difference, updates.

Only the fields of a manifest are compared. Secrets are write-only: the planner sends them when it
creates a repository, or when the authentication method changes.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from core.errors import Conflict, Invalid, NotFound
from towline.cli import documents, generator_manifests, pipeline_manifests
from towline.cli.flow_manifests import FlowPlanner
from towline.cli.manifest_diff import changes_of, service_as_written
from towline.cli.manifests import Manifest
from towline.cli.secret_manifests import SecretPlanner
from towline.cli.session import (
    GraphQLApi,
    Json,
    find_cluster,
    find_helm_repository,
    find_project,
    find_repository,
    find_service,
)

_SECRETS = (
    "password",
    "privateKey",
    "passphrase",
    "clientCertificate",
    "clientKey",
    "authority",
    "knownHosts",
    "proxy",
    "webhookSecret",
)
_PLAIN = ("url", "username", "appId", "installationId", "apiUrl")
_SIGN_INS = {
    "appId": "APP",
    "privateKey": "SSH",
    "password": "BASIC",
    "clientCertificate": "CERTIFICATE",
}
_APART = ("cluster", "name", "secrets")
_FIXED = ("namespace", "repository", "promoted")
_CREATED_LATER = "(created by this apply)"


class ManifestPlanner:
    """Applies manifests in sequence; with `dry_run`, only prints the changes."""

    def __init__(
        self, api: GraphQLApi, *, dry_run: bool, environ: Mapping[str, str] = os.environ
    ) -> None:
        self._api = api
        self._dry_run = dry_run
        self._environ = environ
        self._secrets = SecretPlanner(api, dry_run=dry_run)
        self._flows = FlowPlanner(api, dry_run=dry_run)
        self._kinds: dict[str, Callable[[Manifest], Iterator[str]]] = {
            "Repository": self._repository,
            "HelmRepository": self._helm_repository,
            "Cluster": self._cluster,
            "Secret": self._secret_of,
            "Flow": self._flows.flow,
            "Context": self._context,
            "Service": self._whole_service,
            "Pipeline": self._pipeline,
            **dict.fromkeys(generator_manifests.GENERATOR_DOCUMENTS, self._definition),
        }

    def apply(self, manifest: Manifest) -> list[str]:
        """Applies a manifest; returns lines about the changes, the first with `+`, `~` or `=`."""
        try:
            return list(self._kinds[manifest.kind](manifest))
        except Invalid as error:
            raise Invalid(f"{manifest.place}: {error.message}") from None

    def _repository(self, manifest: Manifest) -> Iterator[str]:
        fields = manifest.fields
        found = self._find(documents.REPOSITORY, "gitRepository", url=fields["url"])
        wanted = {
            "signIn": next((_SIGN_INS[key] for key in _SIGN_INS if key in fields), None),
            "viaClusterId": self._cluster_id(fields["via"]) if "via" in fields else None,
            "recurseSubmodules": fields.get("submodules"),
        }
        attributes = {key: fields.get(key) for key in _PLAIN}
        attributes |= {key: self._secret(fields.get(key)) for key in _SECRETS}
        attributes |= {key: wanted[key] for key in ("viaClusterId", "recurseSubmodules")}
        if found is None:
            yield from self._create(manifest, documents.CREATE_REPOSITORY, attributes=attributes)
            return
        yield from self._update(
            manifest,
            changes_of(found, {key: value for key, value in wanted.items() if value is not None}),
            documents.UPDATE_REPOSITORY,
            id=found["id"],
            attributes=attributes,
        )

    def _helm_repository(self, manifest: Manifest) -> Iterator[str]:
        fields = manifest.fields
        found = self._find(documents.HELM_REPOSITORY, "helmRepository", url=fields["url"])
        attributes: Json = {key: fields.get(key) for key in ("url", "username")}
        attributes["password"] = self._secret(fields.get("password"))
        if found is None:
            if "project" in fields:
                attributes["projectId"] = self._id_of(find_project, fields["project"])
            yield from self._create(
                manifest, documents.CREATE_HELM_REPOSITORY, attributes=attributes
            )
            return
        wanted = {"hasCredentials": True} if "password" in fields else {}
        given: Json = {"id": found["id"], "attributes": attributes}
        changes = changes_of(found, wanted)
        yield from self._update(manifest, changes, documents.UPDATE_HELM_REPOSITORY, **given)

    def _cluster(self, manifest: Manifest) -> Iterator[str]:
        fields = dict(manifest.fields)
        found = self._find(documents.CLUSTER, "cluster", handle=fields["handle"])
        attributes = {"name": fields["handle"]} if found is None else {}
        attributes |= fields
        if "tags" in fields:
            attributes["tags"] = [{"name": k, "value": v} for k, v in fields["tags"].items()]
        if found is None:
            yield from self._create(manifest, documents.CREATE_CLUSTER, attributes=attributes)
            return
        tags = {tag["name"]: tag["value"] for tag in found["tags"]}
        yield from self._update(
            manifest,
            changes_of({**found, "tags": tags}, fields),
            documents.UPDATE_CLUSTER,
            id=found["id"],
            attributes=attributes,
        )

    def _secret_of(self, manifest: Manifest) -> Iterator[str]:
        value = self._secret(manifest.fields.get("value"))
        yield from self._secrets.secret(manifest, value)

    def _context(self, manifest: Manifest) -> Iterator[str]:
        given = manifest.fields.get("secrets")
        secrets = None
        if given is not None:
            secrets = {
                secret.get("name", ""): self._secret(secret.get("value")) or "" for secret in given
            }
        yield from self._flows.context(manifest, secrets)

    def _whole_service(self, manifest: Manifest) -> Iterator[str]:
        """Applies a service, then the secrets it uses."""
        yield from self._service(manifest)
        yield from self._secrets.uses(manifest)

    def _service(self, manifest: Manifest) -> Iterator[str]:
        fields = manifest.fields
        found = self._find(
            documents.SERVICE, "serviceDeployment", cluster=fields["cluster"], name=fields["name"]
        )
        attributes = {key: value for key, value in fields.items() if key not in (*_APART, *_FIXED)}
        if "configuration" in fields:
            words = fields["configuration"].items()
            attributes["configuration"] = [{"name": key, "value": value} for key, value in words]
        if "sources" in fields:
            attributes["sources"] = [self._source(source) for source in fields["sources"]]
        if "repository" in fields.get("helm", {}):
            helm = dict(fields["helm"])
            helm["repositoryId"] = self._id_of(find_helm_repository, helm.pop("repository"))
            attributes["helm"] = helm
        if found is None:
            if "paused" in attributes:
                raise Invalid(
                    "a new service cannot be paused; create it first, then pause it",
                    field="paused",
                )
            yield from self._create_service(manifest, attributes)
            return
        wanted = {key: value for key, value in fields.items() if key != "secrets"}
        if "helm" in fields:
            wanted |= _chart_as_meant(fields, attributes["helm"].get("repositoryId"), found)
        if "sources" in fields:
            wanted["sources"] = attributes["sources"]
        changes = changes_of(service_as_written(found), wanted)
        if fixed := [key for key in _FIXED if any(change.startswith(key) for change in changes)]:
            raise Conflict(
                f"{manifest.place}: {fixed[0]} of a service cannot be changed: "
                "delete the service, then apply again"
            )
        yield from self._update(
            manifest, changes, documents.UPDATE_SERVICE, id=found["id"], attributes=attributes
        )

    def _create_service(self, manifest: Manifest, attributes: Json) -> Iterator[str]:
        fields = manifest.fields
        attributes = {"name": fields["name"], "namespace": fields["namespace"], **attributes}
        if "promoted" in fields:
            attributes["promoted"] = fields["promoted"]
        has_place = {"url", "repository"} & fields.get("helm", {}).keys()
        if "repository" not in fields and not has_place:
            raise Invalid("is required unless helm.url names a chart", field="repository")
        if not self._dry_run and "repository" in fields:
            repository = find_repository(self._api, fields["repository"])
            attributes["repositoryId"] = repository["id"]
        yield from self._create(
            manifest, documents.CREATE_SERVICE, cluster=fields["cluster"], attributes=attributes
        )

    def _pipeline(self, manifest: Manifest) -> Iterator[str]:
        fields = manifest.fields
        found = self._find(documents.PIPELINE, "pipeline", name=fields["name"])
        ids = generator_manifests.ResourceIds(self._api, lenient=self._dry_run)
        attributes = pipeline_manifests.attributes_of(fields, ids, self._service_id, self._secret)
        given: Json = {"name": fields["name"], "attributes": attributes}
        if found is None:
            yield from self._create(manifest, documents.SAVE_PIPELINE, **given)
            return
        meant = pipeline_manifests.as_meant(fields, ids, self._service_id)
        changes = changes_of(pipeline_manifests.as_written(found), meant)
        yield from self._update(manifest, changes, documents.SAVE_PIPELINE, **given)

    def pipeline_attributes(self, fields: Mapping[str, Any]) -> Json:
        """Builds the API's attributes from the fields of a pipeline."""
        ids = generator_manifests.ResourceIds(self._api, lenient=False)
        return pipeline_manifests.attributes_of(fields, ids, self._service_id, self._secret)

    def _definition(self, manifest: Manifest) -> Iterator[str]:
        """Applies a cluster group or a generator."""
        documents = generator_manifests.GENERATOR_DOCUMENTS[manifest.kind]
        found = self._find(documents.one, documents.root, name=manifest.fields["name"])
        ids = generator_manifests.ResourceIds(self._api, lenient=self._dry_run)
        attributes = generator_manifests.attributes_of(manifest.kind, manifest.fields, ids)
        if found is None:
            yield from self._create(manifest, documents.create, attributes=attributes)
            return
        attributes.pop("projectId", None)
        written = generator_manifests.as_written(found)
        changes = changes_of(written, generator_manifests.as_meant(manifest.fields, ids))
        given: Json = {"id": found["id"], "attributes": attributes}
        yield from self._update(manifest, changes, documents.update, **given)

    def _create(self, manifest: Manifest, document: str, **variables: Any) -> Iterator[str]:
        if self._dry_run:
            yield f"+ {manifest.label} would be created"
            return
        (made,) = self._api.ask(document, **variables).values()
        yield f"+ {manifest.label} created"
        if made.get("deployToken"):
            yield f"  deploy token, shown only once: {made['deployToken']}"

    def _update(
        self, manifest: Manifest, changes: Mapping[str, str], document: str, **variables: Any
    ) -> Iterator[str]:
        if not changes:
            yield f"= {manifest.label} unchanged"
            return
        if not self._dry_run:
            self._api.ask(document, **variables)
        yield f"~ {manifest.label} {'would be changed' if self._dry_run else 'changed'}"
        yield from (f"  {where}: {change}" for where, change in changes.items())

    def _find(self, document: str, root: str, **variables: Any) -> Json | None:
        try:
            return self._api.ask(document, **variables)[root]
        except NotFound:
            return None

    def _source(self, given: Mapping[str, str]) -> Json:
        """Converts an additional source of a service to the API's form."""
        if "repository" not in given:
            raise Invalid("a source needs a repository", field="sources")
        defaults = {"ref": "main", "folder": "", "path": ""}
        told = {key: given.get(key, value) for key, value in defaults.items()}
        return {"repositoryId": self._id_of(find_repository, given["repository"]), **told}

    def _cluster_id(self, handle: str) -> str:
        return self._id_of(find_cluster, handle)

    def _service_id(self, name: str) -> str:
        return self._id_of(find_service, name)

    def _id_of(self, find: Callable[[GraphQLApi, str], Json], name: str) -> str:
        try:
            return find(self._api, name)["id"]
        except NotFound:
            if self._dry_run:
                return _CREATED_LATER
            raise

    def _secret(self, source: Mapping[str, str] | None) -> str | None:
        """Reads a secret from the manifest's source: an environment variable or a file."""
        if source is None:
            return None
        if set(source) == {"env"}:
            if source["env"] not in self._environ:
                raise Invalid(f"environment variable {source['env']} is not set")
            return self._environ[source["env"]]
        if set(source) != {"file"}:
            raise Invalid("a secret needs either env or file as its source")
        try:
            return Path(source["file"]).read_text()
        except OSError as error:
            raise Invalid(f"cannot read {source['file']}: {error.strerror}") from None


def _chart_as_meant(fields: Mapping[str, Any], place: str | None, found: Json) -> Json:
    """Helm settings for comparison; the service's repository holds the source of the chart."""
    helm, known = fields["helm"], found["repository"]
    wanted: Json = {
        "helm": {
            key: value
            for key, value in helm.items()
            if key != "repository" and (key != "url" or "repository" in fields)
        }
    }
    if place and known and "repository" not in fields and known["id"] != place:
        wanted["repository"] = helm["repository"]
    return wanted
