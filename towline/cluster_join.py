"""Joins a cluster with the kubeconfig of its administrator, as kind, k3s, kubeadm and Rancher
write them.
"""

from dataclasses import dataclass
from pathlib import Path

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError
from yaml import YAMLError

from core.errors import Forbidden, Invalid, Unavailable
from towline.context_file import write_private

_SECONDS = 15
_CONFLICT, _FORBIDDEN = 409, 403
_RBAC = "rbac.authorization.k8s.io"
# The same bindings as in docs/examples/agent-access.yaml.
_ROLES = {"admins": "cluster-admin", "editors": "edit", "viewers": "view"}


@dataclass(frozen=True, slots=True)
class JoinedCluster:
    """Access to the cluster that joins, by one context of a kubeconfig."""

    kubeconfig: Path
    context: str
    server: str
    api: client.ApiClient

    def version(self) -> str:
        """Returns the version of the API server. Unavailable: it does not answer."""
        try:
            return client.VersionApi(self.api).get_code(_request_timeout=_SECONDS).git_version
        except ApiException as error:
            raise Unavailable(f"{self.server} refuses the kubeconfig: {error.reason}") from None
        except (HTTPError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise Unavailable(f"cannot reach {self.server}: {reason}") from None

    def bind_groups(self) -> list[str]:
        """Binds the groups of Towline's roles to cluster roles; returns the created bindings.
        Forbidden: the user of the kubeconfig may not do this.
        """
        return [
            f"towline-{name} ({role})" for name, role in _ROLES.items() if self._bind(name, role)
        ]

    def _bind(self, name: str, role: str) -> bool:
        binding = client.V1ClusterRoleBinding(
            metadata=client.V1ObjectMeta(name=f"towline-{name}"),
            role_ref=client.V1RoleRef(api_group=_RBAC, kind="ClusterRole", name=role),
            subjects=[client.RbacV1Subject(api_group=_RBAC, kind="Group", name=f"towline:{name}")],
        )
        try:
            client.RbacAuthorizationV1Api(self.api).create_cluster_role_binding(
                binding, _request_timeout=_SECONDS
            )
        except ApiException as error:
            if error.status == _CONFLICT:
                return False
            if error.status == _FORBIDDEN:
                raise Forbidden(
                    f"the user of context {self.context} may not create ClusterRoleBindings; join "
                    "with the kubeconfig of an administrator of the cluster"
                ) from None
            raise Unavailable(f"{self.server}: {error.reason}") from None
        return True


def open_cluster(kubeconfig: Path, context: str | None) -> JoinedCluster:
    """Reads a kubeconfig. Invalid: the file or the context is not usable."""
    configuration = client.Configuration()
    configuration.retries = False
    try:
        name = context or config.list_kube_config_contexts(str(kubeconfig))[1]["name"]
        config.load_kube_config(str(kubeconfig), name, configuration, persist_config=False)
    except (config.ConfigException, OSError, ValueError, TypeError, YAMLError) as error:
        raise Invalid(f"kubeconfig {kubeconfig} is not usable: {error}") from None
    return JoinedCluster(kubeconfig, name, configuration.host, client.ApiClient(configuration))


@dataclass(frozen=True, slots=True)
class AgentFolder:
    """Files of an agent that `towline clusters join` starts."""

    path: Path

    @property
    def token(self) -> Path:
        return self.path / "token"

    @property
    def authority(self) -> Path:
        return self.path / "ca.crt"

    @property
    def state(self) -> Path:
        return self.path / "state"

    def save(self, token: str, authority: str) -> None:
        """Saves the deploy token and the CA of the control plane."""
        write_private(self.token, token + "\n")
        if authority:
            write_private(self.authority, authority)
