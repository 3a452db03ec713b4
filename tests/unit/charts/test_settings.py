"""The program takes what the charts give it."""

from pathlib import Path

import pytest
import yaml

from core.spec.statements.attestation import read_public_keys
from syncagent.settings import from_environment
from tests.unit.charts.rendering import (
    VALUE_SETS,
    Json,
    of_kind,
    pod_of,
    render,
    settings_file,
    values_of,
)
from towline.settings import ServeSettings, ServeTarget, TlsSettings, load


@pytest.mark.parametrize(
    ("chart", "path"), [one for one in VALUE_SETS if one.values[0] == "towline"]
)
def test_serve_accepts_its_settings(chart: str, path: Path, tmp_path: Path) -> None:
    """The file of every set of values is read, and agrees with the ports of the pod."""
    objects = render(chart, yaml.safe_load(path.read_text()))
    settings = _load(objects, tmp_path)
    (container,) = pod_of(objects)["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert open_ports(settings, {"listen": "https"}) == ports


def open_ports(settings: ServeSettings, names: dict[str, str]) -> dict[str, int]:
    """The ports that are open to others, by the listeners' names."""
    listens = {
        names.get(name, name.removeprefix("listen_")): getattr(settings, name)
        for name in type(settings).model_fields
        if name.startswith("listen")
    }
    return {
        name: int(where.rpartition(":")[2])
        for name, where in listens.items()
        if where.startswith("0.0.0.0:")
    }


def test_a_tier_of_git_caches_is_found_by_the_control_planes(tmp_path: Path) -> None:
    """They name each replica that there may be, by the address that its pod gets."""
    objects = render("towline", values_of("towline", "tiers"), namespace="fleet")
    tier = _read(settings_file(objects, "gitcache"), tmp_path)
    assert tier.target is ServeTarget.GITCACHE
    assert tier.git.poll.seconds == _load(objects, tmp_path).git.poll.seconds == 30
    (container,) = pod_of(objects, "gitcache")["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert open_ports(tier, {}) == ports
    service = of_kind(objects, "Service", "-gitcache")["metadata"]["name"]
    most = of_kind(objects, "HorizontalPodAutoscaler", "-gitcache")["spec"]["maxReplicas"]
    assert _load(objects, tmp_path).git.peers.servers == tuple(
        f"{service}-{number}.{service}.fleet.svc:{ports['peers']}" for number in range(most)
    )


@pytest.mark.parametrize("part", ["control-plane", "gitcache"])
def test_secrets_that_replicas_share_come_from_files(part: str, tmp_path: Path) -> None:
    """Each secret's variable names a file that a volume brings, and nothing is given in clear."""
    objects = render("towline", values_of("towline", "tiers"))
    pod = pod_of(objects, part)
    (container,) = pod["containers"]
    files = {f"/etc/towline/{path}" for path in _paths(pod, "settings")}
    given = {one["name"]: one.get("value", "") for one in container["env"]}
    secrets = {value for name, value in given.items() if name.endswith("_FILE")}
    assert secrets and secrets <= files
    assert ("/etc/towline/database/url" in secrets) == (part == "control-plane")
    environ = {name: value for name, value in given.items() if not name.endswith("_FILE")}
    settings = load({}, environ=environ | {"TOWLINE_GIT__PEERS__KEY": "k" * 32})
    assert settings.git.peers.address == "$(POD_IP):8445"


def test_replicas_seal_with_one_key() -> None:
    """The Secret's key lies where the program looks for its own."""
    pod = pod_of(render("towline", values_of("towline", "replicas")))
    mounts = {one["mountPath"]: one for one in pod["containers"][0]["volumeMounts"]}
    assert mounts["/var/lib/towline/encryption.key"]["subPath"] == "encryption.key"


def _paths(pod: Json, volume: str) -> set[str]:
    (found,) = [one for one in pod["volumes"] if one["name"] == volume]
    return {
        item["path"]
        for source in found["projected"]["sources"]
        for part in source.values()
        for item in part["items"]
    }


def test_further_settings_reach_the_program(tmp_path: Path) -> None:
    """`config` holds any setting; numbers arrive as numbers."""
    settings = _load(render("towline", values_of("towline", "everything")), tmp_path)
    assert settings.git.poll.seconds == 5
    assert settings.drain_seconds == 20
    assert settings.log_level == "debug"


def test_an_ingress_sets_the_public_url_and_its_proxies(tmp_path: Path) -> None:
    """Cookies are bound to https, and limits count each client."""
    settings = _load(render("towline", values_of("towline", "ingress")), tmp_path)
    assert settings.auth.public_url == "https://towline.example.org"
    assert settings.trusted_proxies == ("10.42.0.0/16",)
    assert settings.proxy_protocol == ("192.0.2.0/24",)
    own = {"config": {"auth": {"public_url": "https://other.example.org"}}}
    given = render("towline", {**values_of("towline", "ingress"), **own})
    assert _load(given, tmp_path).auth.public_url == "https://other.example.org"
    assert _load(render("towline", {}), tmp_path).auth.public_url == ""


def test_clusters_have_names_below_their_domain(tmp_path: Path) -> None:
    """In the program, the ingress, the routes and the certificate alike, with other settings."""
    given = values_of("towline", "ingress") | {"config": {"proxy": {"http2": False}}}
    objects = render("towline", given)
    proxy = _load(objects, tmp_path).proxy
    assert (proxy.cluster_domain, proxy.http2) == ("clusters.example.org", False)
    spec = of_kind(objects, "Ingress")["spec"]
    hosts = ["towline.example.org", "*.clusters.example.org"]
    assert [rule["host"] for rule in spec["rules"]] == hosts
    assert spec["rules"][0]["http"] == spec["rules"][1]["http"]
    assert [entry["hosts"] for entry in spec["tls"]] == [[host] for host in hosts]
    assert spec["tls"][1]["secretName"] == "clusters-example-org"
    front = {"enabled": True, "backend": "https", "host": hosts[0], "parentRefs": [{"name": "g"}]}
    issued = {"enabled": True, "issuerRef": {"name": "ca"}}
    given |= {"ingress": {"enabled": False}, "gateway": front, "certificate": issued}
    objects = render("towline", given)
    assert of_kind(objects, "HTTPRoute")["spec"]["hostnames"] == hosts
    assert hosts[1] in of_kind(objects, "Certificate")["spec"]["dnsNames"]
    without = render("towline", given | {"clusterDomain": ""})
    assert of_kind(without, "HTTPRoute")["spec"]["hostnames"] == hosts[:1]
    assert _load(without, tmp_path).proxy.cluster_domain == ""


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


def test_requests_are_answered_under_the_names_of_the_ingress_and_of_services(
    tmp_path: Path,
) -> None:
    """Also where a certificate is given that has other names."""
    given = {**values_of("towline", "ingress"), "tls": {"existingSecret": "towline-tls"}}
    settings = _load(render("towline", given, namespace="fleet"), tmp_path)
    assert settings.tls.names == TlsSettings().names
    assert {"towline.example.org", "towline.fleet.svc"} <= set(settings.hosts)
    more = render("towline", {**given, "config": {"hosts": ["old.example.org"]}})
    assert {"towline.example.org", "old.example.org"} <= set(_load(more, tmp_path).hosts)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("default", "towline.example.org:8444"),
        ("terraform", "towline.example.org:8444"),
        ("narrow", "[2001:db8::1]:8444"),
    ],
)
def test_the_agent_gets_the_url_of_the_control_plane(name: str, address: str) -> None:
    """Given as an address or taken from the console's URL."""
    (container,) = pod_of(render("towline-agent", values_of("towline-agent", name)))["containers"]
    assert f"--url={address}" in container["args"]


def test_the_agents_variables_are_settings(tmp_path: Path) -> None:
    """The agent knows each environment variable of the pod."""
    (container,) = pod_of(render("towline-agent", values_of("towline-agent", "narrow")))[
        "containers"
    ]
    given = {one["name"]: one["value"] for one in container["env"]}
    needed = {"TOWLINE_AGENT_HUB_ADDRESS": "https://a:1", "TOWLINE_AGENT_HUB_TOKEN": "twa_x"}
    settings = from_environment(needed | given)
    assert settings.hub.server_name == "towline.example.org"


def test_chart_values_reach_the_agent_settings(tmp_path: Path) -> None:
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
    assert settings.secrets.age_keys is not None and settings.secrets.age_keys.parent in mounts
    keys = of_kind(objects, "ConfigMap", "-keys")["data"][own.trusted_keys.name]
    assert len(read_public_keys(keys.encode())) == 1
    (port,) = container["ports"]
    assert settings.health.listen == f"0.0.0.0:{port['containerPort']}"
    probed = {container[one]["httpGet"]["path"] for one in ("livenessProbe", "readinessProbe")}
    assert probed == {"/healthz", "/readyz"}
    role = of_kind(objects, "Role", "-upgrade")
    assert role["rules"][0]["resourceNames"] == [upgrade.deployment]


def _load(objects: list[Json], folder: Path) -> ServeSettings:
    return _read(settings_file(objects), folder)


def _read(text: str, folder: Path) -> ServeSettings:
    file = folder / "towline.toml"
    file.write_text(text)
    return load({}, file, environ={})
