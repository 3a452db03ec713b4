"""Joins a cluster with the kubeconfig of its administrator, as kind, k3s, kubeadm and Rancher
write them: creates the objects that an agent needs in the cluster, and deletes them.
"""

import base64
import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError
from yaml import YAMLError, safe_load

from core.errors import Forbidden, Invalid, Unavailable
from core.tls import client_context
from towline.context_file import write_private

AGENT = "towline-agent"
_SECONDS = 15
_TOKEN_SECONDS = 30 * 24 * 3600
_FORBIDDEN, _NOT_FOUND, _CONFLICT = 403, 404, 409
# Errors of a kubeconfig with another shape.
_MALFORMED = (ValueError, TypeError, AttributeError, KeyError, YAMLError)
_RBAC = "rbac.authorization.k8s.io"
# The same bindings as in docs/examples/agent-access.yaml.
_ROLES = {"editors": "edit", "viewers": "view"}
# Leaving deletes only objects with these labels, and so keeps those of a chart or a manifest, and
# those of another handle of the same cluster.
_MANAGER = ("app.kubernetes.io/managed-by", "towline-clusters-join")
_HANDLE = "towline.dev/cluster"


@dataclass(frozen=True, slots=True)
class JoinedCluster:
    """Access to the cluster that joins, by one context of a kubeconfig."""

    kubeconfig: Path
    context: str
    handle: str
    api: client.ApiClient

    @property
    def server(self) -> str:
        return self.api.configuration.host

    @property
    def account(self) -> str:
        """Name of the agent's service account, in the namespace that all handles share."""
        return f"{AGENT}-{self.handle}"

    def version(self) -> str:
        """Returns the version of the API server. Unavailable: it does not answer."""
        with self._translated_errors():
            return client.VersionApi(self.api).get_code(_request_timeout=_SECONDS).git_version

    def bind_groups(self, admin_role: str) -> list[str]:
        """Binds the groups of Towline's roles to cluster roles, administrators to `admin_role`.
        Returns a line for each created binding, and for each that another role keeps.
        Forbidden: the user of the kubeconfig may not do this.
        """
        lines: list[str] = []
        for group, role in {"admins": admin_role, **_ROLES}.items():
            subject = {"kind": "Group", "name": f"towline:{group}"}
            lines += self._bind(f"towline-{self.handle}-{group}", role, subject)
        return lines

    def create_account(self, role: str) -> list[str]:
        """Creates the agent's service account, with a cluster role. Returns lines as `bind_groups`.
        Forbidden: the user of the kubeconfig may not do this.
        """
        core, rbac = client.CoreV1Api(self.api), client.RbacAuthorizationV1Api(self.api)
        create_account = partial(core.create_namespaced_service_account, AGENT)
        subject = {"kind": "ServiceAccount", "name": self.account, "namespace": AGENT}
        return [
            *self._create(core.create_namespace, "Namespace", AGENT),
            *self._create(create_account, "ServiceAccount", self.account),
            *self._permit_renewal(rbac),
            *self._bind(self.account, role, subject),
        ]

    def _bind(self, name: str, role: str, subject: dict[str, str]) -> list[str]:
        rbac = client.RbacAuthorizationV1Api(self.api)
        reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role}
        create = rbac.create_cluster_role_binding
        created = self._create(
            create, "ClusterRoleBinding", name, roleRef=reference, subjects=[subject]
        )
        if created:
            return [f"{line} ({role})" for line in created]
        return self._describe_kept_binding(rbac, name, role)

    def _describe_kept_binding(
        self, rbac: client.RbacAuthorizationV1Api, name: str, role: str
    ) -> list[str]:
        """Describes an existing binding to another role, which the API server cannot change."""
        with self._translated_errors():
            binding = rbac.read_cluster_role_binding(name, _request_timeout=_SECONDS).to_dict()
        bound = binding["role_ref"]["name"]
        if bound == role:
            return []
        return [f"kept: ClusterRoleBinding {name} ({bound}); delete it first to bind {role}"]

    def _permit_renewal(self, rbac: client.RbacAuthorizationV1Api) -> list[str]:
        """Lets the agent's account request its own next token."""
        rule = {
            "apiGroups": [""],
            "resources": ["serviceaccounts/token"],
            "resourceNames": [self.account],
            "verbs": ["create"],
        }
        role = partial(rbac.create_namespaced_role, AGENT)
        binding = partial(rbac.create_namespaced_role_binding, AGENT)
        reference = {"apiGroup": _RBAC, "kind": "Role", "name": self.account}
        subject = {"kind": "ServiceAccount", "name": self.account, "namespace": AGENT}
        return [
            *self._create(role, "Role", self.account, rules=[rule]),
            *self._create(
                binding, "RoleBinding", self.account, roleRef=reference, subjects=[subject]
            ),
        ]

    def check_roles(self, roles: set[str]) -> None:
        """Raises Invalid for a missing cluster role: its binding would grant nothing."""
        rbac = client.RbacAuthorizationV1Api(self.api)
        with self._translated_errors():
            cluster_roles = rbac.list_cluster_role(_request_timeout=_SECONDS).items
        existing = {item.to_dict()["metadata"]["name"] for item in cluster_roles}
        if missing := sorted(roles - existing):
            raise Invalid(
                f"the cluster has no ClusterRole {', '.join(missing)}; "
                "`kubectl get clusterroles` lists them"
            )

    def objects(self) -> list[str]:
        """Names of the objects that joining created in the cluster."""
        with self._translated_errors():
            return [name for name, _ in self._deletions()]

    def delete_objects(self) -> list[str]:
        """Deletes the objects that joining created in the cluster; returns their names."""
        deleted = []
        with self._translated_errors():
            for name, delete in list(self._deletions()):
                try:
                    delete(_request_timeout=_SECONDS)
                except ApiException as error:
                    if error.status != _NOT_FOUND:
                        raise
                deleted.append(name)
        return deleted

    def create_kubeconfig(self, path: Path) -> datetime:
        """Writes a kubeconfig with a new token of the agent's service account; returns the end of
        the token, after 30 days or earlier if the API server shortens it.
        """
        spec = client.V1TokenRequestSpec(audiences=[], expiration_seconds=_TOKEN_SECONDS)
        request = client.AuthenticationV1TokenRequest(spec=spec)
        create = client.CoreV1Api(self.api).create_namespaced_service_account_token
        with self._translated_errors():
            status = create(self.account, AGENT, request, _request_timeout=_SECONDS).to_dict()[
                "status"
            ]
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": self.context, "cluster": self._cluster_entry()}],
            "users": [{"name": AGENT, "user": {"token": status["token"]}}],
            "contexts": [{"name": AGENT, "context": {"cluster": self.context, "user": AGENT}}],
            "current-context": AGENT,
        }
        write_private(path, json.dumps(kubeconfig, indent=2))
        return status["expiration_timestamp"]

    def _cluster_entry(self) -> dict[str, object]:
        configuration = self.api.configuration
        entry: dict[str, object] = {"server": self.server}
        if configuration.tls_server_name:
            entry["tls-server-name"] = configuration.tls_server_name
        if configuration.proxy:
            entry["proxy-url"] = configuration.proxy
        if authority := configuration.ssl_ca_cert:
            text = base64.b64encode(Path(authority).read_bytes()).decode()
            entry["certificate-authority-data"] = text
        return entry

    def _create(
        self, create: Callable[..., object], kind: str, name: str, **fields: object
    ) -> list[str]:
        """Creates an object; returns a line about it, or nothing if it exists."""
        metadata = {"name": name, "labels": {**dict([_MANAGER]), _HANDLE: self.handle}}
        with self._translated_errors():
            try:
                create({"metadata": metadata, **fields}, _request_timeout=_SECONDS)
            except ApiException as error:
                if error.status != _CONFLICT:
                    raise
                return []
        return [f"created: {kind} {name}"]

    def _deletions(self) -> Iterator[tuple[str, Callable[..., object]]]:
        core, rbac = client.CoreV1Api(self.api), client.RbacAuthorizationV1Api(self.api)
        accounts = partial(core.list_namespaced_service_account, AGENT)
        delete_account = partial(core.delete_namespaced_service_account, namespace=AGENT)
        kinds = (
            (
                "ClusterRoleBinding",
                rbac.list_cluster_role_binding,
                rbac.delete_cluster_role_binding,
            ),
            (
                "RoleBinding",
                partial(rbac.list_namespaced_role_binding, AGENT),
                partial(rbac.delete_namespaced_role_binding, namespace=AGENT),
            ),
            (
                "Role",
                partial(rbac.list_namespaced_role, AGENT),
                partial(rbac.delete_namespaced_role, namespace=AGENT),
            ),
            ("ServiceAccount", accounts, delete_account),
        )
        managed = "=".join(_MANAGER)
        for kind, list_objects, delete in kinds:
            for name in _object_names(list_objects, f"{managed},{_HANDLE}={self.handle}"):
                yield f"{kind} {name}", partial(delete, name=name)
        other_objects = _object_names(accounts, f"{managed},{_HANDLE}!={self.handle}")
        for name in [] if other_objects else _object_names(core.list_namespace, managed):
            yield f"Namespace {name}", partial(core.delete_namespace, name=name)

    @contextmanager
    def _translated_errors(self) -> Generator[None]:
        """Translates errors of the library to Forbidden and Unavailable."""
        try:
            yield
        except ApiException as error:
            if error.status == _FORBIDDEN:
                raise Forbidden(
                    f"{_error_message(error)}; context {self.context} needs the permissions of an "
                    "administrator of the cluster"
                ) from None
            raise Unavailable(
                f"{self.server} refuses the request: {_error_message(error)}"
            ) from None
        except (HTTPError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise Unavailable(f"cannot reach {self.server}: {reason}") from None


def open_cluster(kubeconfig: Path, context: str | None, handle: str) -> JoinedCluster:
    """Reads a kubeconfig; `handle` is the cluster's in Towline.

    Invalid: the file or the context is not usable.
    """
    configuration = client.Configuration()
    configuration.retries = False
    try:
        kubeconfig_data = safe_load(_read_kubeconfig(kubeconfig))
        if not isinstance(kubeconfig_data, dict):
            raise Invalid(f"kubeconfig {kubeconfig} is not usable: it is not a YAML mapping")
        name, names = (
            context or kubeconfig_data.get("current-context"),
            _entry_names(kubeconfig_data.get("contexts")),
        )
        if name not in names:
            raise Invalid(f"{kubeconfig} has no context {name!r}; known: {', '.join(names)}")
        config.load_kube_config(str(kubeconfig), name, configuration, persist_config=False)
        api = _make_client(configuration)
    except (config.ConfigException, OSError, *_MALFORMED) as error:
        raise Invalid(f"kubeconfig {kubeconfig} is not usable: {error}") from None
    return JoinedCluster(kubeconfig, name, handle, api)


def _read_kubeconfig(kubeconfig: Path) -> bytes:
    try:
        return kubeconfig.read_bytes()
    except OSError as error:
        text = f"cannot read kubeconfig {kubeconfig}: {error.strerror or error}"
        raise Invalid(f"{text}; set KUBECONFIG or --kubeconfig") from None


def _make_client(configuration: client.Configuration) -> client.ApiClient:
    api = client.ApiClient(configuration)
    if configuration.verify_ssl:
        # The library has no setting for the checks of `client_context`.
        tls = client_context(file=configuration.ssl_ca_cert)
        api.rest_client.pool_manager.connection_pool_kw["ssl_context"] = tls
    return api


def _object_names(list_objects: Callable[..., Any], selector: str) -> list[str]:
    """Names of the objects with some labels."""
    response = list_objects(label_selector=selector, _request_timeout=_SECONDS)
    return [item.to_dict()["metadata"]["name"] for item in response.items]


def _entry_names(entries: object) -> list[str]:
    """Lists the names of a kubeconfig's entries. TypeError, KeyError: they have none."""
    if not isinstance(entries, list):
        raise TypeError("it has no list of contexts")
    return [str(entry["name"]) for entry in entries]


def _error_message(error: ApiException) -> str:
    """Message of the API server; else the reason of the HTTP status."""
    try:
        return str(json.loads(error.body or "")["message"])
    except (ValueError, KeyError, TypeError):
        return str(error.reason)
