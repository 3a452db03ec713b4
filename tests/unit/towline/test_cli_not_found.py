"""A name that nothing has: the error says which command shows the names."""

from collections.abc import Callable
from typing import Any

import pytest

from core.errors import NotFound
from tests.fakes.api import FakeApi
from towline.cli.access.find import find_user, find_user_group
from towline.cli.clusters.find import find_cluster
from towline.cli.generators.find import (
    find_global_service,
    find_group,
    find_namespace,
    find_service_set,
)
from towline.cli.pipelines.find import find_gate, find_pipeline
from towline.cli.projects.find import find_project
from towline.cli.repositories.find import (
    find_folder_repository,
    find_helm_repository,
    find_known_repository,
    find_oci_repository,
    find_repository,
)
from towline.cli.secrets.find import find_secret
from towline.cli.services.find import find_service
from towline.cli.services.pods import pods_of


@pytest.mark.parametrize(
    ("find", "command"),
    [
        (find_cluster, "clusters list"),
        (find_folder_repository, "repos list"),
        (find_global_service, "globals list"),
        (find_group, "cluster-groups list"),
        (find_namespace, "namespaces list"),
        (find_service_set, "sets list"),
        (find_helm_repository, "helm-repos list"),
        (find_oci_repository, "oci-repos list"),
        (find_known_repository, "repos list"),
        (find_pipeline, "pipelines list"),
        (find_project, "projects list"),
        (find_repository, "repos list"),
        (find_secret, "secrets list"),
        (lambda api, name: find_service(api, f"dev/{name}"), "services list"),
        (find_user, "users list"),
        (find_user_group, "groups list"),
    ],
)
def test_an_unknown_name_leads_to_the_list(
    find: Callable[[FakeApi, str], object], command: str
) -> None:
    with pytest.raises(NotFound) as caught:
        find(FakeApi(), "wbe")
    assert "wbe" in caught.value.message and f"`towline {command}`" in caught.value.message


@pytest.mark.parametrize(
    ("name", "said"), [("nogate", "has no gate nogate"), (None, "no gate that waits for")]
)
def test_an_unknown_gate_leads_to_its_pipeline(name: str | None, said: str) -> None:
    pipeline: Any = {"name": "shop", "edges": [], "stages": []}
    with pytest.raises(NotFound) as caught:
        find_gate(pipeline, name)
    assert said in caught.value.message
    assert "`towline pipelines get shop`" in caught.value.message


def test_an_unknown_pod_leads_to_those_of_the_service() -> None:
    pods: Any = [{"kind": "Pod", "group": "", "name": f"web-{number}"} for number in range(12)]
    other: Any = {"kind": "Pod", "group": "example.org", "name": "api"}
    with pytest.raises(NotFound) as caught:
        pods_of("dev/web", [*pods, other], "api")
    said = caught.value.message
    assert said.startswith("service dev/web has no pod api; it has web-0, web-1")
    assert said.endswith("and 2 more")
    for name in (None, "api"):
        with pytest.raises(NotFound, match="towline services why dev/web"):
            pods_of("dev/web", [other], name)
    assert pods_of("dev/web", pods, None) == pods
    assert pods_of("dev/web", pods, "web-3") == [pods[3]]
