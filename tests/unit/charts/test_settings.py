"""The program takes what the charts give it."""

from pathlib import Path

import pytest
import yaml

from fleet.attestation import read_public_keys
from syncagent.settings import from_environment
from tests.unit.charts.rendering import VALUE_SETS, of_kind, pod_of, render, values_of
from towline.settings import ServeSettings, load


@pytest.mark.parametrize(
    ("chart", "path"), [one for one in VALUE_SETS if one.values[0] == "towline"]
)
def test_serve_accepts_its_settings(chart: str, path: Path, tmp_path: Path) -> None:
    """The file of every set of values is read, and agrees with the ports of the pod."""
    objects = render(chart, yaml.safe_load(path.read_text()))
    settings = _load(objects, tmp_path)
    ports = {one["name"]: one["containerPort"] for one in pod_of(objects)["containers"][0]["ports"]}
    listens = {
        "https": settings.listen,
        "agents": settings.listen_agents,
        "http": settings.listen_http,
        "metrics": settings.listen_metrics,
    }
    assert {
        name: int(where.rpartition(":")[2]) for name, where in listens.items() if where != "off"
    } == ports


def test_further_settings_reach_the_program(tmp_path: Path) -> None:
    """`config` holds any setting; numbers arrive as numbers."""
    settings = _load(render("towline", values_of("towline", "everything")), tmp_path)
    assert settings.git.poll.seconds == 5
    assert settings.drain_seconds == 20
    assert settings.log_level == "debug"


def test_the_certificate_bears_the_names_of_the_services(tmp_path: Path) -> None:
    """Agents and clients inside and outside find the control plane under a name in it."""
    objects = render("towline", values_of("towline", "ingress"), namespace="fleet")
    names = _load(objects, tmp_path).tls.names
    assert {
        "localhost",
        "towline.fleet.svc",
        "towline-agents.fleet.svc.cluster.local",
        "towline.example.org",
        "agents.example.org",
    } <= set(names)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("default", "towline.example.org:8444"),
        ("terraform", "towline.example.org:8444"),
        ("narrow", "[2001:db8::1]:8444"),
    ],
)
def test_the_agent_is_told_where_the_control_plane_is(name: str, address: str) -> None:
    """Given as an address or taken from the console's URL."""
    (container,) = pod_of(render("towline-agent", values_of("towline-agent", name)))["containers"]
    assert f"--url={address}" in container["args"]


def test_the_agents_variables_are_settings(tmp_path: Path) -> None:
    """What the pod sets in the environment is known to the agent."""
    (container,) = pod_of(render("towline-agent", values_of("towline-agent", "narrow")))[
        "containers"
    ]
    given = {one["name"]: one["value"] for one in container["env"]}
    needed = {"TOWLINE_AGENT_HUB_ADDRESS": "https://a:1", "TOWLINE_AGENT_HUB_TOKEN": "twa_x"}
    settings = from_environment(needed | given)
    assert settings.hub.server_name == "towline.example.org"


def test_what_the_cluster_decides_reaches_the_agent(tmp_path: Path) -> None:
    """Lists with commas, files where the volumes have them, its own Deployment and probes."""
    objects = render("towline-agent", values_of("towline-agent", "autonomous"))
    pod = pod_of(objects)
    (container,) = pod["containers"]
    given = {one["name"]: one["value"] for one in container["env"]}
    needed = {"TOWLINE_AGENT_HUB_ADDRESS": "https://a:1", "TOWLINE_AGENT_HUB_TOKEN": "twa_x"}
    settings = from_environment(needed | given)
    own, upgrade = settings.autonomy, settings.upgrade
    assert own.kinds == "*.apps,ConfigMap,Secret,Service" and own.namespaces == "shop,billing"
    assert own.repository and (own.ref, own.folder, own.configmaps) == (
        "live",
        "clusters/eu",
        "towline",
    )
    assert (upgrade.namespace, upgrade.deployment) == ("towline", "towline-agent")
    assert upgrade.images == "registry.example.org/towline,registry.example.org/mirror/towline"
    assert given["HTTPS_PROXY"].endswith(":3128") and given["NO_PROXY"] == "git.example.org"
    mounts = [Path(one["mountPath"]) for one in container["volumeMounts"]]
    assert own.trusted_keys is not None and own.trusted_keys.parent in mounts
    assert settings.git.credentials in mounts
    keys = of_kind(objects, "ConfigMap", "-keys")["data"][own.trusted_keys.name]
    assert len(read_public_keys(keys.encode())) == 1
    (port,) = container["ports"]
    assert settings.health.listen == f"0.0.0.0:{port['containerPort']}"
    probed = {container[one]["httpGet"]["path"] for one in ("livenessProbe", "readinessProbe")}
    assert probed == {"/healthz", "/readyz"}
    role = of_kind(objects, "Role", "-upgrade")
    assert role["rules"][0]["resourceNames"] == [upgrade.deployment]


def _load(objects: list, folder: Path) -> ServeSettings:
    file = folder / "towline.toml"
    file.write_text(of_kind(objects, "ConfigMap")["data"]["towline.toml"])
    return load({}, file, environ={})
