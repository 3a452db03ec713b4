"""Command lines of a cluster's programs, as pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from towline.demo.clusters.certificates import ClusterCertificates

_LOCAL = "127.0.0.1"
# Pods are simulated: calls of the API server to webhooks must not leave this machine.
_SERVICES = "127.64.0.0/16"
_SIMULATION = Path(__file__).with_name("assets") / "simulation.yaml"


@dataclass(frozen=True, slots=True)
class ClusterPorts:
    """Local TCP ports of a cluster's programs."""

    etcd: int
    apiserver: int
    kubelet: int
    kwok: int


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """Programs, files and ports of one cluster."""

    binaries: Path
    folder: Path
    kubeconfig: Path
    certificates: ClusterCertificates
    ports: ClusterPorts

    @property
    def server(self) -> str:
        """URL of the API server."""
        return f"https://{_LOCAL}:{self.ports.apiserver}"

    def program(self, name: str) -> str:
        """Path of a program."""
        return str(self.binaries / name)


def etcd(layout: ClusterLayout) -> list[str]:
    """etcd without fsync: its data is deleted with the cluster anyway."""
    client = f"http://{_LOCAL}:{layout.ports.etcd}"
    return [
        layout.program("etcd"),
        f"--data-dir={layout.folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls=http://{_LOCAL}:0",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver(layout: ClusterLayout, extra: Sequence[str] = ()) -> list[str]:
    """API server; `extra` flags come last and so take precedence.

    Its request limits are off, as they would distort measured throughput; a test of overload
    turns them on.
    """
    certificates = layout.certificates
    return [
        layout.program("kube-apiserver"),
        f"--etcd-servers=http://{_LOCAL}:{layout.ports.etcd}",
        f"--bind-address={_LOCAL}",
        f"--advertise-address={_LOCAL}",
        f"--secure-port={layout.ports.apiserver}",
        f"--tls-cert-file={certificates.server.certificate}",
        f"--tls-private-key-file={certificates.server.key}",
        f"--client-ca-file={certificates.authority}",
        f"--kubelet-certificate-authority={certificates.authority}",
        f"--kubelet-client-certificate={certificates.admin.certificate}",
        f"--kubelet-client-key={certificates.admin.key}",
        "--kubelet-preferred-address-types=InternalIP",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={certificates.service_accounts}",
        f"--service-account-signing-key-file={certificates.service_accounts}",
        f"--service-cluster-ip-range={_SERVICES}",
        "--endpoint-reconciler-type=none",
        "--max-requests-inflight=0",
        "--max-mutating-requests-inflight=0",
        "--enable-priority-and-fairness=false",
        *extra,
    ]


def controller_manager(layout: ClusterLayout) -> list[str]:
    """Controllers, with API rate limits high enough that the cluster is never the bottleneck."""
    return [
        layout.program("kube-controller-manager"),
        f"--kubeconfig={layout.kubeconfig}",
        f"--root-ca-file={layout.certificates.authority}",
        f"--service-account-private-key-file={layout.certificates.service_accounts}",
        "--use-service-account-credentials=false",
        "--leader-elect=false",
        "--secure-port=0",
        "--concurrent-deployment-syncs=20",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def scheduler(layout: ClusterLayout) -> list[str]:
    """Scheduler."""
    return [
        layout.program("kube-scheduler"),
        f"--kubeconfig={layout.kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def kwok(layout: ClusterLayout) -> list[str]:
    """kwok, which simulates nodes and pods, and reports our port as the kubelets' port."""
    return [
        layout.program("kwok"),
        f"--kubeconfig={layout.kubeconfig}",
        f"--config={_SIMULATION}",
        "--manage-all-nodes=true",
        f"--node-ip={_LOCAL}",
        f"--node-port={layout.ports.kubelet}",
        f"--server-address={_LOCAL}:{layout.ports.kwok}",
        "--node-lease-duration-seconds=40",
    ]


def kubelet(layout: ClusterLayout, *, local_ports: bool) -> list[str]:
    """Simulated kubelet for logs, exec, attach and port-forward of all pods."""
    credentials = layout.certificates.kubelet
    return [
        layout.program("kubelet"),
        f"-listen={_LOCAL}:{layout.ports.kubelet}",
        f"-cert={credentials.certificate}",
        f"-key={credentials.key}",
        f"-client-ca={layout.certificates.authority}",
        f"-home={layout.folder / 'pods'}",
        f"-local-ports={str(local_ports).lower()}",
    ]


def node(cluster: str, number: int) -> dict[str, object]:
    """Simulated node: 64 CPUs, 256 GiB, 1,000 pods, with its own pod network."""
    name = f"{cluster}-node-{number}"
    capacity = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "1000"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
        },
        "spec": {"podCIDR": f"10.{100 + number // 256}.{number % 256}.0/24"},
        "status": {"capacity": capacity, "allocatable": capacity},
    }
