"""Service accounts of the demo's agents, and kubeconfigs with their tokens."""

import base64
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kubernetes import client, config
from kubernetes.dynamic import DynamicClient
from urllib3.exceptions import HTTPError

from core.errors import Unavailable
from core.runtime.atomic_files import write_atomically
from towline.demo.clusters.access import ClusterAccess

AGENT = "towline-agent"
_TOKEN_SECONDS = 30 * 24 * 3600
_RBAC = "rbac.authorization.k8s.io"
_ROLE_BINDINGS = {
    "towline:admins": "cluster-admin",
    "towline:editors": "edit",
    "towline:viewers": "view",
}


def agent_kubeconfig(access: ClusterAccess, path: Path) -> Path:
    """Creates the agent's service account, and writes a kubeconfig with its token to `path`.

    The account is cluster-admin, and can impersonate users. The token is valid for 30 days.
    """
    configuration = client.Configuration()
    with _named_errors(configuration), client.ApiClient(_loaded(access, configuration)) as api:
        dynamic = DynamicClient(api)
        for body in _agent_objects():
            resource = dynamic.resources.get(api_version=body["apiVersion"], kind=body["kind"])
            dynamic.server_side_apply(resource, body=body, field_manager=AGENT)
        token = _create_token(api)
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": access.context, "cluster": _cluster(configuration)}],
        "users": [{"name": AGENT, "user": {"token": token}}],
        "contexts": [{"name": AGENT, "context": {"cluster": access.context, "user": AGENT}}],
        "current-context": AGENT,
    }
    write_atomically(path, json.dumps(kubeconfig, indent=2).encode())
    return path


def _create_token(api: client.ApiClient) -> str:
    spec = client.V1TokenRequestSpec(audiences=[], expiration_seconds=_TOKEN_SECONDS)
    made = client.CoreV1Api(api).create_namespaced_service_account_token(
        AGENT, AGENT, client.AuthenticationV1TokenRequest(spec=spec)
    )
    if made.status is None or not made.status.token:
        raise Unavailable("the API server returned no token")
    return made.status.token


def _loaded(access: ClusterAccess, configuration: client.Configuration) -> client.Configuration:
    config.load_kube_config(
        str(access.kubeconfig), access.context, configuration, persist_config=False
    )
    configuration.retries = False
    return configuration


@contextmanager
def _named_errors(configuration: client.Configuration) -> Generator[None]:
    """Translates errors of the library to Unavailable."""
    try:
        yield
    except (config.ConfigException, client.ApiException, HTTPError, OSError) as error:
        text = error.body if isinstance(error, client.ApiException) else error
        raise Unavailable(f"cannot prepare the cluster at {configuration.host}: {text}") from error


def _cluster(configuration: client.Configuration) -> dict[str, object]:
    """Builds the cluster entry of a kubeconfig, with the certificate of the authority."""
    cluster: dict[str, object] = {"server": configuration.host}
    if configuration.ssl_ca_cert:
        authority = Path(configuration.ssl_ca_cert).read_bytes()
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    if not configuration.verify_ssl:
        cluster["insecure-skip-tls-verify"] = True
    return cluster


def _agent_objects() -> list[Mapping[str, object]]:
    account = {"kind": "ServiceAccount", "name": AGENT, "namespace": AGENT}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": AGENT}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": AGENT, "namespace": AGENT},
        },
        _role_binding(AGENT, "cluster-admin", account),
        *(
            _role_binding(
                group.replace(":", "-"), role, {"kind": "Group", "name": group, "apiGroup": _RBAC}
            )
            for group, role in _ROLE_BINDINGS.items()
        ),
    ]


def _role_binding(name: str, role: str, subject: Mapping[str, str]) -> Mapping[str, object]:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }
