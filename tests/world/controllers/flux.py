"""Flux: source and kustomize controllers, with a cluster given by a kubeconfig in a Secret."""

import os
from collections.abc import Iterable
from pathlib import Path

from core.json_object import JsonObject
from tests.world.controllers.build import Build, Module
from tests.world.controllers.delivery import FOLDER, Delivery, DeliveryController
from towline.demo.ports import free_ports
from towline.demo.process_group import ProcessGroup

_NAMESPACE = "flux-system"
_LOCAL = "127.0.0.1"
_VERSION = "v1.9.6"
_ARTIFACT = "github.com/fluxcd/pkg/artifact"


def _build(name: str, replaced: dict[str, Module]) -> Build:
    module = f"github.com/fluxcd/{name}"
    api = f"{module}/api"
    return Build(Module(module, _VERSION), ".", name, {api: Module(api, _VERSION), **replaced})


# The version of artifact that the module names is not everywhere to be had.
_SOURCE = _build("source-controller", {_ARTIFACT: Module(_ARTIFACT, "v0.18.1")})
_KUSTOMIZE = _build("kustomize-controller", {})


class Flux(DeliveryController):
    """A Kustomization with a `kubeConfig`."""

    name = f"Flux kustomize-controller {_VERSION.removeprefix('v')}"

    def install(self) -> Path:
        _SOURCE.folder()
        return _KUSTOMIZE.folder()

    def definitions(self, programs: Path) -> Iterable[Path]:
        for folder in (_SOURCE.folder(), programs):
            yield from (folder / "config" / "crd" / "bases").glob("*.yaml")

    def settings(self) -> list[JsonObject]:
        return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}]

    def start(self, programs: Path, delivery: Delivery, group: ProcessGroup) -> None:
        storage, *ports = (f"{_LOCAL}:{port}" for port in free_ports(5))
        files = delivery.folder / "storage"
        files.mkdir()
        served = [f"--storage-path={files}", f"--storage-addr={storage}"]
        served += [f"--storage-adv-addr={storage}"]
        environment = os.environ | {
            "KUBECONFIG": str(delivery.access.kubeconfig),
            "RUNTIME_NAMESPACE": _NAMESPACE,
            "TMPDIR": str(delivery.folder),
        }
        for build, arguments in ((_SOURCE, served), (_KUSTOMIZE, [])):
            addresses = [f"--metrics-addr={ports.pop()}", f"--health-addr={ports.pop()}"]
            group.spawn(
                [str(build.folder() / build.program), *addresses, *arguments],
                log=delivery.folder / f"{build.program}.log",
                env=environment,
            )

    def objects(self, delivery: Delivery) -> list[JsonObject]:
        source = {
            "interval": "5s",
            "url": delivery.repository.url,
            "ref": {"branch": "main"},
        }
        kustomization = {
            "interval": "5s",
            "path": f"./{FOLDER}",
            "prune": True,
            "wait": True,
            "targetNamespace": delivery.namespace,
            "sourceRef": {"kind": "GitRepository", "name": delivery.namespace},
            "kubeConfig": {"secretRef": {"name": delivery.namespace}},
        }
        return [
            _object("v1", "Secret", delivery)
            | {"stringData": {"value": delivery.target.kubeconfig()}},
            _object("source.toolkit.fluxcd.io/v1", "GitRepository", delivery) | {"spec": source},
            _object("kustomize.toolkit.fluxcd.io/v1", "Kustomization", delivery)
            | {"spec": kustomization},
        ]

    def refresh(self, delivery: Delivery) -> None:
        """Its interval is 5 s."""

    def status(self, delivery: Delivery) -> object:
        read = delivery.read("kustomization", _NAMESPACE)
        status = read.get("status", {})
        ready = [each for each in status.get("conditions", ()) if each["type"] == "Ready"]
        newest = delivery.repository.resolve("refs/heads/main") or ""
        if not status.get("lastAppliedRevision", "").endswith(newest):
            return None
        if not ready or ready[0]["status"] != "True":
            return None
        return [ready[0]["reason"], sorted(entry["id"] for entry in status["inventory"]["entries"])]


def _object(version: str, kind: str, delivery: Delivery) -> JsonObject:
    metadata = {"name": delivery.namespace, "namespace": _NAMESPACE}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
