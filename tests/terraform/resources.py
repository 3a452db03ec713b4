"""What the provider does for each kind of resource: its calls, and what it reads back.

`planned` is what a configuration says, with the provider's defaults; `read` gives the same
attributes as the API tells them. A plan shows no difference where both are equal.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.terraform.provider import Json, Provider

UNKNOWN = ""
"""Optional text with an unknown value, as the provider sends it."""


def pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    """A map as the API takes it."""
    return [{"name": name, "value": value} for name, value in values.items()]


def mapped(given: list[dict[str, str]] | None) -> dict[str, str]:
    """The same, read back."""
    return {one["name"]: one["value"] for one in given or []}


def filled(**attributes: Any) -> Json:
    """Attributes without those that are not set; empty lists are left out as well."""
    return {name: one for name, one in attributes.items() if one is not None and one != []}


def subjects(given: list[Json] | None) -> set[tuple[str | None, str | None]]:
    """Subjects of bindings, unordered; an id of a binding that nobody sent is an error."""
    assert all(one["id"] is None for one in given or [])
    return {
        (one["user"]["id"] if one["user"] else None, one["group"]["id"] if one["group"] else None)
        for one in given or []
    }


@dataclass
class Cluster:
    """`plural_cluster` without a kubeconfig."""

    name: str
    handle: str | None = None
    project_id: str | None = None
    protect: bool = False
    metadata: str = "{}"
    tags: dict[str, str] = field(default_factory=dict)
    id: str = ""

    async def create(self, run: Provider) -> Json:
        attributes = filled(
            name=self.name,
            handle=self.handle if self.handle is not None else UNKNOWN,
            projectId=self.project_id,
            protect=self.protect,
            metadata=self.metadata,
            tags=pairs(self.tags),
        )
        made = await run.call("CreateCluster", attributes=attributes)
        assert made["deployToken"] and made["insertedAt"]
        self.id = made["id"]
        self.handle = self.handle if self.handle is not None else made["handle"]
        return made

    async def read(self, run: Provider) -> Json:
        found = await run.call("GetCluster", id=self.id)
        assert found["metadata"] is not None
        return {
            "name": found["name"],
            "handle": found["handle"],
            "project_id": found["project"]["id"] if found["project"] else None,
            "protect": found["protect"],
            "metadata": json.dumps(found["metadata"], sort_keys=True),
            "tags": mapped(found["tags"]),
        }

    def planned(self) -> Json:
        return {
            "name": self.name,
            "handle": self.handle,
            "project_id": self.project_id,
            "protect": self.protect,
            "metadata": json.dumps(json.loads(self.metadata), sort_keys=True),
            "tags": self.tags,
        }

    async def update(self, run: Provider) -> None:
        attributes = filled(
            name=self.name,
            handle=self.handle,
            protect=self.protect,
            metadata=self.metadata,
            tags=pairs(self.tags),
        )
        await run.call("UpdateCluster", id=self.id, attributes=attributes)

    async def delete(self, run: Provider) -> None:
        await run.call("DeleteCluster", id=self.id)
        await run.wait_gone("GetCluster", self.id)


@dataclass
class Repository:
    """`plural_git_repository`; only its URL is read back."""

    url: str
    username: str | None = None
    password: str | None = None
    id: str = ""

    def _attributes(self) -> Json:
        return filled(url=self.url, username=self.username, password=self.password, decrypt=False)

    async def create(self, run: Provider) -> None:
        made = await run.call("CreateGitRepository", attributes=self._attributes())
        self.id = made["id"]

    async def read(self, run: Provider) -> Json:
        found = await run.call("GetGitRepository", id=self.id, url=self.url)
        return {"url": found["url"]}

    def planned(self) -> Json:
        return {"url": self.url}

    async def update(self, run: Provider) -> None:
        await run.call("UpdateGitRepository", id=self.id, attributes=self._attributes())

    async def delete(self, run: Provider) -> None:
        await run.call("DeleteGitRepository", id=self.id)


@dataclass
class Service:
    """`plural_service_deployment`, in a cluster by id or by handle."""

    name: str
    cluster_id: str | None = None
    cluster_handle: str | None = None
    repository_id: str | None = None
    folder: str = "app"
    ref: str = "main"
    kustomize: str | None = None
    configuration: dict[str, str] = field(default_factory=dict)
    protect: bool = False
    templated: bool = False
    namespace: str = "shop"
    id: str = ""

    def _common(self) -> Json:
        return filled(
            version="0.0.1",
            protect=self.protect,
            templated=self.templated,
            git={"ref": self.ref, "folder": self.folder} if self.repository_id else None,
            kustomize={"path": self.kustomize} if self.kustomize else None,
            configuration=pairs(self.configuration),
        )

    async def create(self, run: Provider) -> None:
        attributes = {
            **self._common(),
            **filled(
                name=self.name,
                namespace=self.namespace,
                docsPath="docs",
                repositoryId=self.repository_id,
                helm={"valuesFiles": ["values.yaml"]},
                syncConfig={"namespaceMetadata": {"labels": '{"team":"a"}', "annotations": "{}"}},
            ),
        }
        if self.kustomize:
            del attributes["helm"]
        if self.cluster_handle:
            made = await run.call(
                "CreateServiceDeploymentWithHandle",
                cluster=self.cluster_handle,
                attributes=attributes,
            )
        else:
            made = await run.call(
                "CreateServiceDeployment", clusterId=self.cluster_id, attributes=attributes
            )
        assert made["cluster"]["id"] and made["cluster"]["handle"]
        self.id = made["id"]

    async def read(self, run: Provider) -> Json:
        found = await run.call("GetServiceDeployment", id=self.id)
        return {
            "name": found["name"],
            "namespace": found["namespace"],
            "repository": found["repository"]["id"] if found["repository"] else None,
            "git": found["git"],
            "kustomize": found["kustomize"]["path"] if found["kustomize"] else None,
            "configuration": mapped(found["configuration"]),
            "protect": found["protect"],
            "templated": found["templated"],
        }

    def planned(self) -> Json:
        git = {"ref": self.ref, "folder": self.folder} if self.repository_id else None
        return {
            "name": self.name,
            "namespace": self.namespace,
            "repository": self.repository_id,
            "git": git,
            "kustomize": self.kustomize,
            "configuration": self.configuration,
            "protect": self.protect,
            "templated": self.templated,
        }

    async def update(self, run: Provider) -> None:
        await run.call("UpdateServiceDeployment", id=self.id, attributes=self._common())

    async def delete(self, run: Provider) -> None:
        await run.call("DeleteServiceDeployment", id=self.id)
        await run.wait_gone("GetServiceDeployment", self.id)


@dataclass
class Context:
    """`plural_service_context`, found by its name."""

    name: str
    configuration: Json
    secrets: dict[str, str] = field(default_factory=dict)
    project_id: str | None = None
    id: str = ""

    async def create(self, run: Provider) -> None:
        attributes = filled(
            configuration=json.dumps(self.configuration),
            secrets=pairs(self.secrets),
            projectId=self.project_id or UNKNOWN,
        )
        made = await run.call("SaveServiceContext", name=self.name, attributes=attributes)
        self.id = made["id"]

    update = create

    async def read(self, run: Provider) -> Json:
        found = await run.call("GetServiceContext", name=self.name)
        return {
            "id": found["id"],
            "configuration": found["configuration"],
            "project_id": found["project"]["id"] if found["project"] else None,
        }

    def planned(self) -> Json:
        return {
            "id": self.id,
            "configuration": self.configuration,
            "project_id": self.project_id,
        }

    async def delete(self, run: Provider) -> None:
        await run.call("DeleteServiceContext", id=self.id)


@dataclass
class Project:
    """`plural_project`; destroying it makes no call."""

    name: str
    description: str | None = None
    readers: tuple[str, ...] = ()
    writer_groups: tuple[str, ...] = ()
    id: str = ""

    def _attributes(self) -> Json:
        return filled(
            name=self.name,
            description=self.description,
            readBindings=[{"userId": one} for one in self.readers],
            writeBindings=[{"groupId": one} for one in self.writer_groups],
        )

    async def create(self, run: Provider) -> None:
        self.id = (await run.call("CreateProject", attributes=self._attributes()))["id"]

    async def read(self, run: Provider) -> Json:
        found = await run.call("GetProject", id=self.id)
        return {
            "name": found["name"],
            "description": found["description"],
            "default": found["default"],
            "read": subjects(found["readBindings"]),
            "write": subjects(found["writeBindings"]),
        }

    def planned(self) -> Json:
        return {
            "name": self.name,
            "description": self.description,
            "default": False,
            "read": {(one, None) for one in self.readers},
            "write": {(None, one) for one in self.writer_groups},
        }

    async def update(self, run: Provider) -> None:
        await run.call("UpdateProject", id=self.id, attributes=self._attributes())


@dataclass
class Group:
    """`plural_group`, found by its name."""

    name: str
    description: str | None = None
    everyone: bool | None = None
    id: str = ""

    def _attributes(self) -> Json:
        given = {"name": self.name, "description": self.description, "global": self.everyone}
        return filled(**given)

    async def create(self, run: Provider) -> None:
        self.id = (await run.call("CreateGroup", attributtes=self._attributes()))["id"]

    async def read(self, run: Provider) -> Json:
        found = await run.call("GetGroup", name=self.name)
        return {"description": found["description"], "global": found["global"]}

    def planned(self) -> Json:
        return {"description": self.description, "global": self.everyone}

    async def update(self, run: Provider) -> None:
        await run.call("UpdateGroup", groupId=self.id, attributtes=self._attributes())

    async def delete(self, run: Provider) -> None:
        await run.call("DeleteGroup", groupId=self.id)


@dataclass
class User:
    """`plural_user`; destroying it makes no call."""

    email: str
    name: str | None = None
    id: str = ""

    async def create(self, run: Provider) -> None:
        attributes = {"email": self.email, "name": self.name or UNKNOWN}
        made = await run.call("UpsertUser", attributes=attributes)
        self.id, self.name = made["id"], made["name"]
        assert self.name

    async def read(self, run: Provider) -> Json:
        found = await run.call("GetUser", email=self.email)
        return {"id": found["id"], "email": found["email"], "name": found["name"]}

    def planned(self) -> Json:
        return {"id": self.id, "email": self.email, "name": self.name}

    async def update(self, run: Provider) -> None:
        attributes = {"email": self.email, "name": self.name}
        await run.call("UpdateUser", id=self.id, attributes=attributes)


@dataclass
class ServiceAccount:
    """`plural_service_account`; destroying it makes no call."""

    name: str
    email: str
    id: str = ""

    def _attributes(self) -> Json:
        return {"name": self.name, "email": self.email}

    async def create(self, run: Provider) -> None:
        self.id = (await run.call("CreateServiceAccount", attributes=self._attributes()))["id"]

    async def read(self, run: Provider) -> Json:
        found = await run.call("GetUser", email=self.email)
        return {"id": found["id"], "email": found["email"], "name": found["name"]}

    def planned(self) -> Json:
        return {"id": self.id, "email": self.email, "name": self.name}

    async def update(self, run: Provider) -> None:
        await run.call("UpdateServiceAccount", id=self.id, attributes=self._attributes())


@dataclass
class GlobalService:
    """`plural_global_service`; it is never read."""

    name: str
    service_id: str
    distro: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    id: str = ""

    def _attributes(self) -> Json:
        return filled(name=self.name, distro=self.distro, tags=pairs(self.tags))

    def _check(self, response: Json) -> None:
        assert response["service"]["id"] == self.service_id
        assert (response["name"], response["distro"]) == (self.name, self.distro)
        assert mapped(response["tags"]) == self.tags

    async def create(self, run: Provider) -> None:
        made = await run.call(
            "CreateGlobalServiceDeployment",
            serviceId=self.service_id,
            attributes=self._attributes(),
        )
        self._check(made)
        self.id = made["id"]

    async def update(self, run: Provider) -> None:
        made = await run.call("UpdateGlobalService", id=self.id, attributes=self._attributes())
        self._check(made)

    async def delete(self, run: Provider) -> None:
        await run.call("DeleteGlobalService", id=self.id)
