"""Every set of values gives objects that Kubernetes knows, in the shape we promise."""

import base64
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from tests.unit.charts.rendering import (
    CHARTS,
    NAMES,
    VALUE_SETS,
    Json,
    helm,
    notes,
    of_kind,
    pod_of,
    render,
    values_of,
    workloads_of,
)
from tests.unit.charts.resources import complaints, is_foreign

kubernetes = pytest.importorskip(
    "kubernetes_validate", reason="`make charts` installs Kubernetes' schemas"
)

VERSIONS = ("1.29", "1.36")
WORKLOADS = {"control-plane": "towline", "gitcache": "towline-gitcache"}
CLIENTS = {"postgresql": ["control-plane"], "redis": ["control-plane", "gitcache"]}


@pytest.mark.parametrize(("chart", "path"), VALUE_SETS)
def test_helm_has_no_complaint(chart: str, path: Path) -> None:
    """Strict lint: warnings count."""
    report = helm.lint(CHARTS / chart, yaml.safe_load(path.read_text()), strict=True)
    assert report["errors"] == []


@pytest.fixture(scope="module")
def schemas() -> Iterator[None]:
    """The library reads megabytes anew for each object, which is most of its time."""
    with pytest.MonkeyPatch.context() as patch:
        read = kubernetes.utils.schema_contents
        patch.setattr(kubernetes.utils, "schema_contents", cache(read))
        yield


@pytest.mark.usefixtures("schemas")
@pytest.mark.parametrize(("chart", "path"), VALUE_SETS)
def test_objects_are_those_of_kubernetes(chart: str, path: Path) -> None:
    """Each object fits the schema of the oldest and the newest version, unknown fields refused."""
    objects = render(chart, yaml.safe_load(path.read_text()))
    assert len(objects) >= 2
    for one in objects:
        if is_foreign(one):
            assert complaints(one) == []
            continue
        for version in VERSIONS:
            kubernetes.validate(one, version, strict=True)


@pytest.mark.parametrize(("chart", "path"), VALUE_SETS)
def test_names_do_not_collide(chart: str, path: Path) -> None:
    """No two objects of a release are the same one."""
    objects = render(chart, yaml.safe_load(path.read_text()))
    names = [(one["apiVersion"], one["kind"], one["metadata"]["name"]) for one in objects]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("chart", "path"), VALUE_SETS)
def test_selectors_meet_the_pods(chart: str, path: Path) -> None:
    """Services, budgets and policies select the pods of one workload, whatever it is called."""
    objects = render(chart, yaml.safe_load(path.read_text()))
    templates = {one["metadata"]["name"]: one["spec"]["template"] for one in workloads_of(objects)}
    for one in workloads_of(objects):
        assert selected(one["spec"]["selector"], templates) == [one["metadata"]["name"]]
    for one in objects:
        spec = one.get("spec", {})
        if one["kind"] == "Service":
            (name,) = selected({"matchLabels": spec["selector"]}, templates)
            ports = {p["name"] for p in templates[name]["spec"]["containers"][0]["ports"]}
            assert {port["targetPort"] for port in spec["ports"]} <= ports
        if one["kind"] in {"NetworkPolicy", "PodDisruptionBudget"}:
            chosen = selected(spec.get("podSelector") or spec["selector"], templates)
            assert chosen == [one["metadata"]["name"]]
        if one["kind"] == "HorizontalPodAutoscaler":
            assert spec["scaleTargetRef"]["name"] in templates


def selected(selector: Json, templates: dict[str, Json]) -> list[str]:
    """The workloads whose pods have these labels."""
    wanted = selector["matchLabels"].items()
    return [name for name, one in templates.items() if wanted <= one["metadata"]["labels"].items()]


@pytest.mark.parametrize(("chart", "path"), VALUE_SETS)
def test_pods_are_confined(chart: str, path: Path) -> None:
    """No root, nothing writable but volumes, no capabilities, bounded memory."""
    for workload in workloads_of(render(chart, yaml.safe_load(path.read_text()))):
        pod = workload["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in container["resources"]["limits"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]} | (mounted & {"data"})


@pytest.mark.parametrize(("chart", "path"), VALUE_SETS)
def test_services_nearby_are_not_settings(chart: str, path: Path) -> None:
    """Kubernetes adds no TOWLINE_… variables of its own, which the program would refuse."""
    for workload in workloads_of(render(chart, yaml.safe_load(path.read_text()))):
        assert workload["spec"]["template"]["spec"]["enableServiceLinks"] is False


def test_the_deploy_token_is_in_a_secret_only() -> None:
    """Neither an argument, a variable, an annotation nor the notes show it."""
    values = values_of("towline-agent", "default")
    token = values["secrets"]["deployToken"]
    objects = render("towline-agent", values)
    assert of_kind(objects, "Secret")["data"]["deployToken"] == "dHdhX2V4YW1wbGU="
    assert token not in yaml.safe_dump(objects)
    assert token not in notes("towline-agent", values)


def test_a_new_token_restarts_the_agent() -> None:
    """The pod template changes with the token, which is read at start."""
    values = values_of("towline-agent", "default")
    before = of_kind(render("towline-agent", values), "Deployment")
    values["secrets"]["deployToken"] = "twa_other"
    after = of_kind(render("towline-agent", values), "Deployment")
    assert before["spec"]["template"] != after["spec"]["template"]


def test_existing_objects_are_used_and_not_made() -> None:
    """A release over existing secret, account and roles makes none of them."""
    objects = render("towline-agent", values_of("towline-agent", "existing"))
    made = {one["kind"] for one in objects}
    assert made & {"Secret", "ServiceAccount", "ConfigMap", "NetworkPolicy"} == set()
    assert pod_of(objects)["serviceAccountName"] == "deployer"
    (volume,) = [v for v in pod_of(objects)["volumes"] if v["name"] == "credentials"]
    token, authority = [source["secret"] for source in volume["projected"]["sources"]]
    assert token == {"name": "towline-token", "items": [{"key": "token", "path": "token"}]}
    assert authority["name"] == "towline-ca"
    roles = {one["metadata"]["name"] for one in objects if one["kind"] == "ClusterRole"}
    assert roles == {"towline-agent-impersonate"}


def test_existing_secrets_of_the_control_plane() -> None:
    """Database and certificate come from Secrets, the data from a claim."""
    objects = render("towline", values_of("towline", "existing"))
    pod = pod_of(objects)
    assert "volumeClaimTemplates" not in of_kind(objects, "StatefulSet")["spec"]
    variables = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    assert variables["TOWLINE_DATABASE_FILE"] == "/etc/towline/database/url"
    (settings,) = [v for v in pod["volumes"] if v["name"] == "settings"]
    files = {
        item["path"]
        for source in settings["projected"]["sources"]
        for part in source.values()
        for item in part["items"]
    }
    assert files == {"towline.toml", "tls/tls.crt", "tls/tls.key", "database/url"}


@pytest.mark.parametrize("protocol", ["https", "http"])
def test_plain_http_listens_only_for_an_ingress_that_asks_for_it(protocol: str) -> None:
    """Otherwise neither port, service nor setting speaks HTTP without TLS."""
    values = values_of("towline", "ingress")
    values["ingress"]["backend"] = protocol
    behind = render("towline", values)
    for plain in (render("towline", {}), *([behind] if protocol == "https" else [])):
        assert 'listen_http = "off"' in of_kind(plain, "ConfigMap")["data"]["towline.toml"]
        assert "8080" not in yaml.safe_dump(plain)
    backend = of_kind(behind, "Ingress")["spec"]["rules"][0]["http"]["paths"][0]["backend"]
    service = next(
        one
        for one in behind
        if one["kind"] == "Service" and one["metadata"]["name"] == backend["service"]["name"]
    )
    assert backend["service"]["port"]["name"] == protocol
    assert protocol in {p["name"] for p in service["spec"]["ports"]}


@pytest.mark.parametrize("chart", NAMES)
def test_no_pod_reaches_metadata_services_by_default(chart: str) -> None:
    """A policy is there by default, and its outbound rules can be replaced."""
    policy = of_kind(render(chart, values_of(chart, "default")), "NetworkPolicy")["spec"]
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    blocks = [to["ipBlock"] for rule in policy["egress"] for to in rule.get("to", ())]
    assert "169.254.0.0/16" in blocks[0]["except"] and "fe80::/10" in blocks[1]["except"]
    assert [port["port"] for port in policy["egress"][0]["ports"]] == [53, 53]
    own = [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]
    values = {**values_of(chart, "default"), "networkPolicy": {"enabled": True, "egress": own}}
    assert of_kind(render(chart, values), "NetworkPolicy")["spec"]["egress"] == own


def test_secrets_of_settings_are_mounted() -> None:
    pod = pod_of(render("towline", values_of("towline", "everything")))
    mounts = {one["mountPath"]: one["name"] for one in pod["containers"][0]["volumeMounts"]}
    volume = next(
        one for one in pod["volumes"] if one["name"] == mounts["/etc/towline-secrets/oidc"]
    )
    assert volume["secret"] == {"secretName": "oidc", "defaultMode": 0o440}


def test_kubernetes_waits_longer_than_the_drain() -> None:
    """A pod is killed only after the program has had its time."""
    pod = pod_of(render("towline", {"drainSeconds": 60}))
    assert pod["terminationGracePeriodSeconds"] > 2 * 60


@pytest.mark.parametrize(("chart", "path"), VALUE_SETS)
def test_long_release_names_stay_names(chart: str, path: Path) -> None:
    """A name of 53 characters, the most that Helm allows, gives objects that fit.

    Those of Services are labels in names of hosts; a StatefulSet's goes into a label of its pods,
    with a hyphen and a hash of 10 characters behind it.
    """
    most = {"Service": 63, "Deployment": 63, "StatefulSet": 52}
    for one in render(chart, yaml.safe_load(path.read_text()), name="r" * 53):
        assert len(one["metadata"]["name"]) <= most.get(one["kind"], 253)


@pytest.mark.parametrize(("server", "clients"), CLIENTS.items())
def test_clients_of_a_trial_mount_the_urls_of_its_servers(server: str, clients: list[str]) -> None:
    """The URL of the made Secret leads to the made Service, and each client's pod mounts it."""
    objects = render("towline", values_of("towline", "trial"))
    secret = of_kind(objects, "Secret", f"-{server}")
    data = {name: base64.b64decode(text).decode() for name, text in secret["data"].items()}
    url = urlsplit(data["url"])
    service = of_kind(objects, "Service", f"-{server}")
    assert (url.scheme, url.hostname) == (server, service["metadata"]["name"])
    assert url.port == service["spec"]["ports"][0]["port"]
    assert url.password == data["password"] and len(data["password"]) == 32
    for client in ("control-plane", "gitcache"):
        mounted = _secrets_of(pod_of(objects, client))
        assert (mounted.get(url.hostname) == ["url"]) == (client in clients)


def test_nobody_else_reaches_the_servers_of_a_trial() -> None:
    """Only clients with the URL, with or without `networkPolicy`; servers reach nothing."""
    values = {**values_of("towline", "trial"), "networkPolicy": {"enabled": False}}
    objects = render("towline", values)
    policies = {
        one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "NetworkPolicy"
    }
    assert set(policies) == {"towline-postgresql", "towline-redis"}
    templates = {one["metadata"]["name"]: one["spec"]["template"] for one in workloads_of(objects)}
    for name, spec in policies.items():
        (rule,) = spec["ingress"]
        assert rule["ports"] == [{"port": name.removeprefix("towline-")}]
        let_in = [selected(peer["podSelector"], templates) for peer in rule["from"]]
        clients = CLIENTS[name.removeprefix("towline-")]
        assert let_in == [[WORKLOADS[one]] for one in clients]
        assert "Egress" in spec["policyTypes"] and "egress" not in spec


def test_a_trial_is_marked_as_one() -> None:
    """The notes after the installation say so, and only then."""
    assert "NOT FOR PRODUCTION" in notes("towline", values_of("towline", "trial"))
    assert "NOT FOR PRODUCTION" not in notes("towline", values_of("towline", "replicas"))


def _secrets_of(pod: Json) -> dict[str, list[str]]:
    """The Secrets that its settings come from, and the keys of each."""
    (settings,) = [one for one in pod["volumes"] if one["name"] == "settings"]
    sources = [one["secret"] for one in settings["projected"]["sources"] if "secret" in one]
    return {one["name"]: [item["key"] for item in one["items"]] for one in sources}


def test_notes_lead_to_the_first_cluster() -> None:
    """They name the token, the authority, and the agent's chart with this control plane."""
    notes_text = notes("towline", values_of("towline", "ingress"))
    assert "admin.token" in notes_text and "ca.crt" in notes_text
    assert "towline login https://towline.example.org --token-stdin" in notes_text
    assert "--set hub.address=agents.example.org:8444 --set-file hub.ca=ca.crt" in notes_text


@pytest.mark.parametrize("chart", NAMES)
def test_the_readme_tells_every_value(chart: str) -> None:
    """Each group of values and each value in it is in the table."""
    rows = [
        line
        for line in (CHARTS / chart / "README.md").read_text().splitlines()
        if line.startswith("| `")
    ]
    documented = "\n".join(row.split(" | ")[0] for row in rows)
    for name, value in yaml.safe_load((CHARTS / chart / "values.yaml").read_text()).items():
        assert f"`{name}" in documented
        for inner in value if isinstance(value, dict) and name != "resources" else ():
            assert f".{inner}" in documented or f"`{name}.{inner}" in documented, f"{name}.{inner}"


def test_an_agent_that_joins_keeps_its_token_in_a_secret_that_it_may_write() -> None:
    found = render("towline-agent", values_of("towline-agent", "joining"))
    by_name = {(one["kind"], one["metadata"]["name"]): one for one in found}
    secrets = {name for kind, name in by_name if kind == "Secret"}
    assert secrets == {"towline-agent", "towline-agent-credentials"}
    # Helm and kubectl keep data that the chart does not name.
    assert "data" not in by_name["Secret", "towline-agent-credentials"]
    (rule,) = by_name["Role", "towline-agent-credentials"]["rules"]
    assert rule["resourceNames"] == ["towline-agent-credentials"]
    assert rule["verbs"] == ["get", "patch"]
    pod = by_name["Deployment", "towline-agent"]["spec"]["template"]["spec"]
    assert "--bootstrap-token-file=/etc/towline/token" in pod["containers"][0]["args"]
