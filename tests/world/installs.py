"""Installs applications of public packages through Towline, on a cluster with simulated pods."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import yaml

from core.errors import NotFound, Unavailable
from core.json_object import JsonObject
from gitcache.render import charts
from tests.world.corpus import CHECKOUTS, fetch, packages
from towline.demo.environment import DemoEnvironment, wait_until
from towline.demo.git_server import GitServer

_CLUSTER = "world"
_SECONDS = 90.0
_CREATE = """mutation ($cluster: ID!, $attributes: ServiceDeploymentAttributes!) {
  createServiceDeployment(clusterId: $cluster, attributes: $attributes) { id } }"""
_CONNECT = "mutation ($url: String!) { createGitRepository(attributes: {url: $url}) { id } }"
_STATE = """query ($id: ID!) { serviceDeployment(id: $id) { status
  errors { source message } components { kind name state message } } }"""


@dataclass(frozen=True, slots=True)
class Application:
    """A folder of a package in the corpus, and where it is installed."""

    name: str
    package: str
    folder: str
    namespace: str
    values: str = ""
    waits_for: str = ""
    """Reason why it cannot be healthy here; empty: it must be."""


# The API server asks the pods of an APIService, and simulated pods have no programs.
_NO_API = "the API of its APIService needs a real pod"
APPLICATIONS = (
    Application(
        "ingress-nginx",
        "k8s.io/ingress-nginx",
        "charts/ingress-nginx",
        "ingress-nginx",
        # The cluster has no load balancers.
        "controller: {service: {type: ClusterIP}}",
    ),
    Application(
        "cert-manager",
        "github.com/cert-manager/cert-manager",
        "deploy/charts/cert-manager",
        "cert-manager",
        "crds: {enabled: true}",
    ),
    Application(
        "external-secrets",
        "github.com/external-secrets/external-secrets",
        "deploy/charts/external-secrets",
        "external-secrets",
    ),
    Application(
        "metrics-server",
        "sigs.k8s.io/metrics-server",
        "charts/metrics-server",
        "metrics-server",
        waits_for=_NO_API,
    ),
    Application("descheduler", "sigs.k8s.io/descheduler", "charts/descheduler", "descheduler"),
    Application("kueue", "sigs.k8s.io/kueue", "charts/kueue", "kueue-system", waits_for=_NO_API),
    Application("metallb", "go.universe.tf/metallb", "charts/metallb", "metallb-system"),
    Application("istio-base", "istio.io/istio", "manifests/charts/base", "istio-system"),
    Application(
        "istiod",
        "istio.io/istio",
        "manifests/charts/istio-control/istio-discovery",
        "istiod",
        "global: {istioNamespace: istiod}",
    ),
    Application(
        "cilium",
        "github.com/cilium/cilium",
        "install/kubernetes/cilium",
        "cilium",
        # The operators share a port of their node, and the cluster has one.
        "operator: {replicas: 1}",
    ),
    Application(
        "sealed-secrets", "github.com/bitnami-labs/sealed-secrets", "helm/sealed-secrets", "sealed"
    ),
    Application(
        "gatekeeper",
        "github.com/open-policy-agent/gatekeeper",
        "charts/gatekeeper",
        "gatekeeper-system",
    ),
    Application(
        "vault",
        "github.com/hashicorp/vault-helm",
        "",
        "vault",
        # The cluster has no storage.
        "server: {dataStorage: {enabled: false}}",
    ),
    Application("grafana-of-flagger", "github.com/fluxcd/flagger", "charts/grafana", "flagger"),
    Application("external-dns", "sigs.k8s.io/external-dns", "charts/external-dns", "external-dns"),
    Application("kyverno", "github.com/kyverno/kyverno", "charts/kyverno", "kyverno"),
    Application("podinfo", "github.com/stefanprodan/podinfo", "charts/podinfo", "podinfo"),
    Application(
        "podinfo-kustomize", "github.com/stefanprodan/podinfo", "kustomize", "podinfo-kustomize"
    ),
    Application("keda", "github.com/kedacore/keda", "config/default", "keda", waits_for=_NO_API),
    Application("flux", "github.com/fluxcd/flux2", "manifests/rbac", "flux-system"),
    Application(
        "prometheus-operator", "github.com/prometheus-operator/prometheus-operator", "", "default"
    ),
    Application("kube-prometheus", "kube-prometheus", "manifests", "monitoring", waits_for=_NO_API),
    Application(
        "kube-prometheus-stack",
        "prometheus-community-helm",
        "charts/kube-prometheus-stack",
        "stack",
        # The cluster has no storage.
        "grafana: {persistence: {enabled: false}}",
    ),
    Application(
        "prometheus",
        "prometheus-community-helm",
        "charts/prometheus",
        "prometheus",
        # The cluster has no storage.
        "{server: {persistentVolume: {enabled: false}},"
        " alertmanager: {persistence: {enabled: false}}}",
    ),
    Application("argo-cd", "argo-helm", "charts/argo-cd", "argocd"),
    Application("argo-rollouts", "argo-helm", "charts/argo-rollouts", "rollouts"),
    Application("argo-workflows", "argo-helm", "charts/argo-workflows", "workflows"),
    Application("grafana", "checkouts/grafana-community", "charts/grafana", "grafana"),
    Application(
        "traefik",
        "checkouts/traefik",
        "traefik",
        "traefik",
        # The cluster has no load balancers.
        "service: {spec: {type: ClusterIP}}",
    ),
    Application(
        "redis",
        "checkouts/bitnami",
        "bitnami/redis",
        "redis",
        # The cluster has no storage.
        "{architecture: standalone, master: {persistence: {enabled: false}}}",
    ),
)


@dataclass(frozen=True, slots=True)
class Installation:
    """The outcome of an application: its status after some seconds, and why it is not healthy."""

    application: Application
    status: str
    seconds: float
    objects: int
    why: str

    @property
    def failed(self) -> bool:
        """Reports whether it should be healthy, or all of it applied, and is not."""
        waits = self.status == "SYNCED" and self.application.waits_for
        return self.status != "HEALTHY" and not waits


def install(wanted: str = "") -> list[Installation]:
    """Installs the applications whose name has `wanted`, each in its own namespace."""
    found = [
        (application, package)
        for application in APPLICATIONS
        for package in packages()
        if application.package in package and wanted in application.name
    ]
    absent = {given.name for given in APPLICATIONS if wanted in given.name}
    absent -= {application.name for application, _ in found}
    if absent:
        _say(f"not installed: {', '.join(sorted(absent))}; give checkouts in {CHECKOUTS}")
    with DemoEnvironment(_say, names=[_CLUSTER]) as environment:
        environment.start()
        server = environment.closing.enter_context(GitServer())
        return [_installed(environment, server, *each) for each in found]


def table(installations: Iterable[Installation]) -> str:
    """Returns the outcomes as Markdown."""
    lines = ["| application | objects | status | seconds | why |", "|---" * 5 + "|"]
    for installation in installations:
        application = installation.application
        columns = (
            application.name,
            installation.objects,
            installation.status,
            f"{installation.seconds:.0f}",
            installation.why if installation.failed else application.waits_for,
        )
        lines.append("| " + " | ".join(str(column) for column in columns) + " |")
    return "\n".join(lines)


def _installed(
    environment: DemoEnvironment, server: GitServer, application: Application, package: str
) -> Installation:
    id = _create(environment, server, application, fetch(package))
    started = time.monotonic()
    while True:
        time.sleep(1)
        state = environment.ask(_STATE, id=id)["serviceDeployment"]
        seconds = time.monotonic() - started
        if state["status"] in ("HEALTHY", "FAILED") or seconds > _SECONDS:
            break
    _say(f"{application.name}: {state['status']}")
    _remove(environment, id, application)
    objects = len(state["components"])
    return Installation(application, state["status"], seconds, objects, _reason(state))


def _remove(environment: DemoEnvironment, id: str, application: Application) -> None:
    """Deletes a service: the next application may bring the same objects."""
    environment.ask("mutation ($id: ID!) { deleteServiceDeployment(id: $id) { id } }", id=id)
    # The agent keeps protected objects until a person confirms their deletion.
    kubectl = environment.members[_CLUSTER].kubectl
    kubectl("delete", "crd", "--all", "--wait=false")
    if application.namespace != "default":
        kubectl("delete", "namespace", application.namespace, "--wait=false", "--ignore-not-found")

    def is_gone() -> bool:
        try:
            return environment.ask(_STATE, id=id)["serviceDeployment"] is None
        except NotFound:
            return True

    try:
        wait_until("the objects are gone", is_gone, _SECONDS)
    except Unavailable as error:
        _say(error.message)


def _reason(state: JsonObject) -> str:
    """Returns why a service is not healthy."""
    if state["status"] == "HEALTHY":
        return ""
    unwell = [
        f"{part['kind']} {part['name']}: {part['state']} {part['message'] or ''}"
        for part in state["components"]
        if part["state"] != "RUNNING"
    ]
    reasons = [*(error["message"] for error in state["errors"]), *unwell]
    return " ".join("; ".join(reasons).split())[:300]


def _create(
    environment: DemoEnvironment, server: GitServer, application: Application, top: Path
) -> str:
    repository = server.create_repository(application.name)
    repository.commit(dict(_files(top, application.folder)))
    connected = environment.ask(_CONNECT, url=repository.url)["createGitRepository"]["id"]
    attributes: JsonObject = {
        "name": application.name,
        "namespace": application.namespace,
        "repositoryId": connected,
        "git": {"ref": "main", "folder": application.folder},
    }
    if application.values:
        attributes["helm"] = {"values": application.values}
    cluster = environment.members[_CLUSTER].id
    made = environment.ask(_CREATE, cluster=cluster, attributes=attributes)
    return made["createServiceDeployment"]["id"]


def _files(top: Path, folder: str) -> Iterator[tuple[str, bytes]]:
    """Yields the files of the first folder of a path: bases are there as well."""
    first = folder.partition("/")[0]
    for path in (top / first).rglob("*"):
        if path.is_file():
            yield path.relative_to(top).as_posix(), path.read_bytes()
    if (top / folder / charts.CHART).exists():
        yield from _with_neighbours(top / folder, folder)


def _with_neighbours(chart: Path, folder: str) -> Iterator[tuple[str, bytes]]:
    """Yields the neighbours that a chart depends on; others would need a network."""
    text = yaml.safe_load((chart / charts.CHART).read_text())
    kept = []
    for dependency in text.get("dependencies", ()):
        name = dependency["name"]
        neighbour = chart.parent / name
        if (chart / "charts" / name).exists():
            kept.append(dependency)
        elif neighbour.exists():
            kept.append({**dependency, "repository": ""})
            for path in neighbour.rglob("*"):
                if path.is_file():
                    inside = path.relative_to(neighbour).as_posix()
                    yield f"{folder}/charts/{name}/{inside}", path.read_bytes()
    yield (
        (PurePosixPath(folder) / charts.CHART).as_posix(),
        yaml.safe_dump({**text, "dependencies": kept}).encode(),
    )


def _say(text: str) -> None:
    print(text, flush=True)
