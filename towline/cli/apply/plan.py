"""Applies manifests: compares them with the control plane, prints the difference, updates.

Only the fields of a manifest are compared. Secrets are write-only: the planner sends them when it
creates a repository, or when the authentication method changes.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from core.errors import Conflict, Invalid
from core.json_object import JsonObject
from towline.cli.apply import generator_manifests, pipeline_manifests
from towline.cli.apply.flow_manifests import FlowPlanner
from towline.cli.apply.generator_manifests import ResourceIds
from towline.cli.apply.manifest_diff import changes_of, service_as_written
from towline.cli.apply.manifests import GIT_SECRETS, Manifest
from towline.cli.apply.secret_manifests import SecretPlanner
from towline.cli.clusters import generated as clusters
from towline.cli.pipelines import generated as pipelines
from towline.cli.repositories import generated as repositories
from towline.cli.services import generated as services
from towline.cli.services.generated import Service
from towline.cli.shell.output import Row
from towline.cli.shell.session import configuration_of, found_or_none, named
from towline.input_files import read_text
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import (
        ClusterAttributes,
        ClusterUpdateAttributes,
        GitAttributes,
        HelmRepositoryAttributes,
        PipelineAttributes,
        ServiceDeploymentAttributes,
        ServiceSourceAttributes,
        ServiceUpdateAttributes,
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


class ManifestPlanner:
    """Applies manifests in sequence; with `dry_run`, only prints the changes."""

    def __init__(
        self, api: GraphQLApi, *, dry_run: bool, environ: Mapping[str, str] = os.environ
    ) -> None:
        self._api = api
        self._dry_run = dry_run
        self._environ = environ
        self._ids = ResourceIds(api, lenient=dry_run)
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
            **dict.fromkeys(generator_manifests.GENERATORS, self._definition),
        }

    def apply(self, manifest: Manifest) -> list[str]:
        """Applies a manifest; returns lines about the changes, the first with `+`, `~` or `=`."""
        try:
            return list(self._kinds[manifest.kind](manifest))
        except Invalid as error:
            raise Invalid(f"{manifest.place}: {error.message}") from None

    def _repository(self, manifest: Manifest) -> Iterator[str]:
        fields = manifest.fields
        found = found_or_none(lambda: repositories.repository(self._api, url=fields["url"]))
        wanted = {
            "signIn": next((_SIGN_INS[key] for key in _SIGN_INS if key in fields), None),
            "viaClusterId": self._ids.cluster(fields["via"]) if "via" in fields else None,
            "recurseSubmodules": fields.get("submodules"),
        }
        given: JsonObject = {key: fields.get(key) for key in _PLAIN}
        given |= {key: self._secret(fields.get(key)) for key in GIT_SECRETS}
        given |= {key: wanted[key] for key in ("viaClusterId", "recurseSubmodules")}
        attributes = cast("GitAttributes", given)
        if found is None:
            yield from self._create(
                manifest, lambda: repositories.create_repository(self._api, attributes)
            )
            return
        id = found["id"]
        yield from self._update(
            manifest,
            changes_of(found, {key: value for key, value in wanted.items() if value is not None}),
            lambda: repositories.update_repository(self._api, id, attributes),
        )

    def _helm_repository(self, manifest: Manifest) -> Iterator[str]:
        fields = manifest.fields
        found = found_or_none(lambda: repositories.helm_repository(self._api, url=fields["url"]))
        attributes: HelmRepositoryAttributes = {
            "url": fields["url"],
            "username": fields.get("username"),
            "password": self._secret(fields.get("password")),
        }
        if found is None:
            if "project" in fields:
                attributes["projectId"] = self._ids.project(fields["project"])
            yield from self._create(
                manifest, lambda: repositories.create_helm_repository(self._api, attributes)
            )
            return
        id = found["id"]
        yield from self._update(
            manifest,
            changes_of(found, {"hasCredentials": True} if "password" in fields else {}),
            lambda: repositories.update_helm_repository(self._api, id, attributes),
        )

    def _cluster(self, manifest: Manifest) -> Iterator[str]:
        fields = manifest.fields
        found = found_or_none(lambda: clusters.cluster(self._api, handle=fields["handle"]))
        given = fields | ({"tags": named(fields["tags"])} if "tags" in fields else {})
        if found is None:
            new = cast("ClusterAttributes", {"name": fields["handle"], **given})
            yield from self._create(manifest, lambda: clusters.create_cluster(self._api, new))
            return
        id, changed = found["id"], cast("ClusterUpdateAttributes", given)
        tags = {tag["name"]: tag["value"] for tag in found["tags"]}
        yield from self._update(
            manifest,
            changes_of({**found, "tags": tags}, fields),
            lambda: clusters.update_cluster(self._api, id, changed),
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
        found = found_or_none(
            lambda: services.service(self._api, cluster=fields["cluster"], name=fields["name"])
        )
        given = {key: value for key, value in fields.items() if key not in (*_APART, *_FIXED)}
        if "configuration" in fields:
            given["configuration"] = configuration_of(fields["configuration"])
        if "sources" in fields:
            given["sources"] = [self._source(source) for source in fields["sources"]]
        if "repository" in fields.get("helm", {}):
            helm = dict(fields["helm"])
            given["helm"] = {"repositoryId": self._ids.charts(helm.pop("repository")), **helm}
        if found is None:
            if "paused" in given:
                raise Invalid(
                    "a new service cannot be paused; create it first, then pause it",
                    field="paused",
                )
            yield from self._create_service(manifest, given)
            return
        wanted = {key: value for key, value in fields.items() if key != "secrets"}
        if "helm" in fields:
            wanted |= _chart_as_meant(fields, given["helm"].get("repositoryId"), found)
        if "sources" in fields:
            wanted["sources"] = given["sources"]
        changes = changes_of(service_as_written(found), wanted)
        if fixed := [key for key in _FIXED if any(change.startswith(key) for change in changes)]:
            raise Conflict(
                f"{manifest.place}: {fixed[0]} of a service cannot be changed: "
                "delete the service, then apply again"
            )
        id, attributes = found["id"], cast("ServiceUpdateAttributes", given)
        yield from self._update(
            manifest, changes, lambda: services.update_service(self._api, id, attributes)
        )

    def _create_service(self, manifest: Manifest, given: JsonObject) -> Iterator[str]:
        fields = manifest.fields
        given = {"name": fields["name"], "namespace": fields["namespace"], **given}
        if "promoted" in fields:
            given["promoted"] = fields["promoted"]
        has_place = {"url", "repository"} & fields.get("helm", {}).keys()
        if "repository" not in fields and not has_place:
            raise Invalid("is required unless helm.url names a chart", field="repository")
        if not self._dry_run and "repository" in fields:
            given["repositoryId"] = self._ids.repository(fields["repository"])
        attributes, cluster = cast("ServiceDeploymentAttributes", given), fields["cluster"]
        yield from self._create(
            manifest, lambda: services.create_service(self._api, attributes, cluster=cluster)
        )

    def _pipeline(self, manifest: Manifest) -> Iterator[str]:
        fields, name = manifest.fields, manifest.fields["name"]
        found = found_or_none(lambda: pipelines.pipeline(self._api, name=name))
        attributes = self.pipeline_attributes(fields)

        def save() -> Row:
            return pipelines.save_pipeline(self._api, name, attributes)

        if found is None:
            yield from self._create(manifest, save)
            return
        meant = pipeline_manifests.as_meant(fields, self._ids)
        changes = changes_of(pipeline_manifests.as_written(found), meant)
        yield from self._update(manifest, changes, save)

    def pipeline_attributes(self, fields: JsonObject) -> "PipelineAttributes":
        """Builds the API's attributes from the fields of a pipeline."""
        given = pipeline_manifests.attributes_of(fields, self._ids, self._secret)
        return cast("PipelineAttributes", given)

    def _definition(self, manifest: Manifest) -> Iterator[str]:
        """Applies a cluster group or a generator."""
        fields, kind = manifest.fields, generator_manifests.GENERATORS[manifest.kind]
        found = found_or_none(lambda: kind.find(self._api, fields["name"]))
        attributes = generator_manifests.attributes_of(manifest.kind, fields, self._ids)
        if found is None:
            yield from self._create(manifest, lambda: kind.create(self._api, attributes))
            return
        attributes.pop("projectId", None)
        written = generator_manifests.as_written(dict(found))
        changes = changes_of(written, generator_manifests.as_meant(fields, self._ids))
        id = found["id"]
        yield from self._update(manifest, changes, lambda: kind.update(self._api, id, attributes))

    def _create(self, manifest: Manifest, create: Callable[[], Row]) -> Iterator[str]:
        if self._dry_run:
            yield f"+ {manifest.label} would be created"
            return
        made = create()
        yield f"+ {manifest.label} created"
        if made.get("deployToken"):
            yield f"  deploy token, shown only once: {made['deployToken']}"

    def _update(
        self, manifest: Manifest, changes: Mapping[str, str], update: Callable[[], Row]
    ) -> Iterator[str]:
        if not changes:
            yield f"= {manifest.label} unchanged"
            return
        if not self._dry_run:
            update()
        yield f"~ {manifest.label} {'would be changed' if self._dry_run else 'changed'}"
        yield from (f"  {where}: {change}" for where, change in changes.items())

    def _source(self, given: Mapping[str, str]) -> "ServiceSourceAttributes":
        """Converts an additional source of a service to the API's form."""
        if "repository" not in given:
            raise Invalid("a source needs a repository", field="sources")
        return {
            "repositoryId": self._ids.repository(given["repository"]),
            "ref": given.get("ref", "main"),
            "folder": given.get("folder", ""),
            "path": given.get("path", ""),
        }

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
        return read_text(Path(source["file"]))


def _chart_as_meant(fields: JsonObject, place: str | None, found: Service) -> JsonObject:
    """Helm settings for comparison; the service's repository holds the source of the chart."""
    helm, known = fields["helm"], found["repository"]
    wanted: JsonObject = {
        "helm": {
            key: value
            for key, value in helm.items()
            if key != "repository" and (key != "url" or "repository" in fields)
        }
    }
    if place and known and "repository" not in fields and known["id"] != place:
        wanted["repository"] = helm["repository"]
    return wanted
