"""Command lines that make one cluster out of seven programs."""

import re
from pathlib import Path

from towline.demo.clusters import components
from towline.demo.clusters.certificates import CertificatePair, ClusterCertificates
from towline.demo.clusters.components import ClusterLayout, ClusterPorts

FOLDER = Path("/state")
PAIR = CertificatePair(FOLDER / "one.crt", FOLDER / "one.key")
LAYOUT = ClusterLayout(
    binaries=Path("/bin"),
    folder=FOLDER,
    kubeconfig=FOLDER / "kubeconfig",
    certificates=ClusterCertificates(FOLDER / "ca.crt", PAIR, PAIR, PAIR, FOLDER / "sa.key"),
    ports=ClusterPorts(etcd=1, apiserver=2, kubelet=3, kwok=4),
)


def every() -> list[list[str]]:
    """The command lines of all programs."""
    simple = [
        components.etcd,
        components.apiserver,
        components.controller_manager,
        components.scheduler,
        components.kwok,
    ]
    return [*(make(LAYOUT) for make in simple), components.kubelet(LAYOUT, local_ports=False)]


def test_nothing_listens_beyond_this_machine() -> None:
    """Every address in a command line is a loopback one."""
    text = " ".join(word for argv in every() for word in argv)
    addresses = re.findall(r"\b\d+\.\d+\.\d+\.\d+\b(?!/)", text)
    assert len(addresses) >= 8
    assert set(addresses) == {"127.0.0.1"}


def test_the_parts_agree_on_their_ports() -> None:
    """A component gets the port that its peer listens on."""
    etcd, apiserver, _, _, kwok, kubelet = (" ".join(argv) for argv in every())
    assert "--listen-client-urls=http://127.0.0.1:1" in etcd
    assert "--etcd-servers=http://127.0.0.1:1" in apiserver
    assert "-listen=127.0.0.1:3" in kubelet
    assert "--node-port=3" in kwok
    assert LAYOUT.server == "https://127.0.0.1:2"


def test_extra_flags_of_the_api_server_win() -> None:
    """They come last, and the last one counts."""
    argv = components.apiserver(LAYOUT, ["--enable-priority-and-fairness=true"])
    assert argv[-1] == "--enable-priority-and-fairness=true"


def test_no_secret_is_in_a_command_line() -> None:
    """Keys are named by their files."""
    assert not any("PRIVATE KEY" in word for argv in every() for word in argv)


def test_nodes_have_networks_of_their_own() -> None:
    """600 nodes, 600 pod networks: pods of two nodes never share an address."""
    networks = {str(components.node("dev", number)["spec"]) for number in range(600)}
    assert len(networks) == 600
