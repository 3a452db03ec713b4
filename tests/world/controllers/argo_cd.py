"""Argo CD: application controller and repository server, with a cluster given by a Secret."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from core.errors import Unavailable
from core.json_object import JsonObject
from tests.servers.redis import find_redis
from tests.world.controllers.build import Build, Module
from tests.world.controllers.delivery import FOLDER, Delivery, DeliveryController
from towline.demo.ports import free_ports
from towline.demo.process_group import ProcessGroup

_NAMESPACE = "argocd"
_LOCAL = "127.0.0.1"
_VERSION = "v3.5.7"
_ENGINE = "github.com/argoproj/argo-cd/gitops-engine"
_PART_OF = "app.kubernetes.io/part-of"
_CONTROLLER, _SERVER = "argocd-application-controller", "argocd-repo-server"
# The module replaces its engine by a folder of its repository. Its metrics have no setting for the
# address, and would listen on all.
_BUILD = Build(
    Module("github.com/argoproj/argo-cd/v3", _VERSION),
    "./cmd",
    "argocd",
    {_ENGINE: Module(_ENGINE, "v0.0.0-20260914071520-c9c369efcc5b")},
    ("controller/appcontroller.go", '"0.0.0.0:%d"', f'"{_LOCAL}:%d"'),
)


class ArgoCd(DeliveryController):
    """An Application with a `destination.server`."""

    name = f"Argo CD {_VERSION.removeprefix('v')}"

    def install(self) -> Path:
        return _BUILD.folder()

    def definitions(self, programs: Path) -> Iterable[Path]:
        yield from (programs / "manifests" / "crds").glob("app*-crd.yaml")

    def settings(self) -> list[JsonObject]:
        project = {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]}
        everything = [{"group": "*", "kind": "*"}]
        return [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}},
            _object("v1", "ConfigMap", "argocd-cm", {_PART_OF: "argocd"}),
            _object("v1", "Secret", "argocd-secret", {_PART_OF: "argocd"}),
            _object("argoproj.io/v1alpha1", "AppProject", "default")
            | {"spec": {**project, "clusterResourceWhitelist": everything}},
        ]

    def start(self, programs: Path, delivery: Delivery, group: ProcessGroup) -> None:
        redis, repositories, served, metrics = free_ports(4)
        program = find_redis()
        if program is None:
            raise Unavailable("Argo CD needs redis-server")
        words = ["--port", str(redis), "--bind", _LOCAL, "--save", "", "--appendonly", "no"]
        group.spawn([str(program), *words], log=delivery.folder / "redis.log")
        # Modules carry no permission to execute a file.
        wrapper = delivery.folder / "git-verify-wrapper.sh"
        wrapper.write_bytes((programs / "hack" / wrapper.name).read_bytes())
        wrapper.chmod(0o755)
        environment = os.environ | {
            "PATH": f"{delivery.folder}:{os.environ['PATH']}",
            "KUBECONFIG": str(delivery.access.kubeconfig),
            "TMPDIR": str(delivery.folder),
            "ARGOCD_ASK_PASS_SOCK": str(delivery.folder / "ask-pass"),
            "ARGOCD_GPG_ENABLED": "false",
        }
        cache = f"--redis={_LOCAL}:{redis}"
        server = [
            cache,
            "--disable-tls",
            "--client-ca-path=",
            f"--address={_LOCAL}",
            f"--port={repositories}",
        ]
        server += [f"--metrics-address={_LOCAL}", f"--metrics-port={served}"]
        controller = [cache, f"--repo-server={_LOCAL}:{repositories}", "--repo-server-plaintext"]
        controller += [f"--namespace={_NAMESPACE}", f"--metrics-port={metrics}", "--app-resync=5"]
        for name, arguments in ((_SERVER, server), (_CONTROLLER, controller)):
            group.spawn(
                [str(programs / _BUILD.program), *arguments],
                log=delivery.folder / f"{name}.log",
                env=environment | {"ARGOCD_BINARY_NAME": name},
            )

    def objects(self, delivery: Delivery) -> list[JsonObject]:
        target = delivery.target
        tls = {"caData": target.authority, "certData": target.certificate, "keyData": target.key}
        config = {
            "bearerToken": target.token,
            "tlsClientConfig": {name: data for name, data in tls.items() if data},
        }
        cluster = {"name": delivery.namespace, "server": target.server}
        application = {
            "project": "default",
            "source": {
                "repoURL": delivery.repository.url,
                "path": FOLDER,
                "targetRevision": "main",
            },
            "destination": {"server": target.server, "namespace": delivery.namespace},
            "syncPolicy": {"automated": {"prune": True, "selfHeal": True}},
        }
        kind = {"argocd.argoproj.io/secret-type": "cluster"}
        return [
            _object("v1", "Secret", delivery.namespace, kind)
            | {"stringData": {**cluster, "config": json.dumps(config)}},
            _object("argoproj.io/v1alpha1", "Application", delivery.namespace)
            | {"spec": application},
        ]

    def refresh(self, delivery: Delivery) -> None:
        mark = "argocd.argoproj.io/refresh=normal"
        application = ("annotate", "application", delivery.namespace, "--overwrite", mark)
        delivery.kubectl("-n", _NAMESPACE, *application)

    def status(self, delivery: Delivery) -> object:
        status = delivery.read("application", _NAMESPACE).get("status", {})
        sync, health = status.get("sync", {}), status.get("health", {})
        newest = delivery.repository.resolve("refs/heads/main")
        if sync.get("revision") != newest or sync.get("status") != "Synced":
            return None
        if health.get("status") != "Healthy":
            return None
        return sorted(
            f"{entry['kind']} {entry['name']} {entry['status']}" for entry in status["resources"]
        )


def _object(version: str, kind: str, name: str, labels: dict[str, str] | None = None) -> JsonObject:
    metadata = {"name": name, "namespace": _NAMESPACE, "labels": labels or {}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
