"""The command line against a real control plane, without any cluster."""

import json
import subprocess
from contextlib import closing
from http import HTTPStatus
from pathlib import Path

import pytest
import yaml

from core.errors import Unavailable
from core.runtime.clock import SystemClock
from tests.integration.cli.conftest import PROGRAMS, TOWLINE, Installation
from towline.cli.shell.polling import poll_until
from towline.client import GraphQLClient
from towline.contexts import ControlPlaneTarget
from towline.demo.git_server import GitServer
from towline.operations import GraphQLDocument
from towline.subscription import Subscription

FLEET = """
apiVersion: towline.io/v1
kind: Pipeline
metadata: {{name: {name}}}
spec:
  stages:
    - {{name: dev, services: [{name}-dev/web]}}
    - {{name: prod, services: [{name}-prod/web]}}
  edges:
    - source: dev
      target: prod
      gates:
        - {{name: release, rule: {{kind: APPROVAL}}}}
        - {{name: soak, rule: {{kind: SOAK, soakSeconds: 5}}}}
"""
PART = """
---
apiVersion: towline.io/v1
kind: Cluster
metadata: {{name: {name}-{stage}}}
spec:
  tags: {{stage: {stage}}}
---
apiVersion: towline.io/v1
kind: Service
metadata: {{name: web, cluster: {name}-{stage}}}
spec:
  namespace: shop
  repository: {url}
  ref: main
  folder: {stage}
  configuration: {{stage: {stage}}}
"""


HEAD = "apiVersion: towline.io/v1\n"


def fleet(name: str, url: str) -> str:
    """Two clusters, a service in each, and a pipeline between."""
    parts = [PART.format(name=name, stage=stage, url=url) for stage in ("dev", "prod")]
    repository = f"\n---\n{HEAD}kind: GitRepository\nmetadata: {{name: {url}}}\n"
    return FLEET.format(name=name) + "".join(parts) + repository


def test_whoami_prints_the_signed_in_user(installation: Installation) -> None:
    said = json.loads(installation.run("whoami", "-o", "json").stdout)
    assert (said["email"], said["role"]) == ("admin", "ADMIN")


def test_the_saved_contexts_are_for_their_owner_only(installation: Installation) -> None:
    path = Path(installation.environment["HOME"]) / ".config" / "towline" / "config.toml"
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_unknown_authority_is_refused_with_the_way_out(
    installation: Installation, tmp_path: Path
) -> None:
    words = ("--config", str(tmp_path / "none.toml"), "login", installation.url, "--token-stdin")
    done = installation.run(*words, stdin="x\n", code=5)
    assert "--ca-file" in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["clusters", "get", "nowhere"], 3),
        (["services", "get", "nowhere/web"], 3),
        (["services", "wait", "nowhere/web", "--timeout", "soon"], 2),
        (["repos", "create", "ext::sh -c id"], 2),
        (["apply", "-f", "nowhere.yaml"], 2),
        (["--url", "https://127.0.0.1:1", "whoami"], 4),
    ],
)
def test_failures_have_their_exit_codes(
    installation: Installation, words: list[str], code: int
) -> None:
    done = installation.run(*words, code=code)
    assert done.stderr.startswith("towline: ")
    assert "Traceback" not in done.stderr


def test_a_replay_of_no_pipeline_says_so(installation: Installation, tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(f"{HEAD}kind: Cluster\nmetadata: {{name: dev}}\n")
    window = ("--since", "2026-01-01T00:00Z", "--until", "2026-01-02T00:00Z")
    done = installation.run("pipelines", "what-if", "-f", str(file), *window, code=2)
    assert "contains 0 pipelines" in done.stderr and "Traceback" not in done.stderr


def test_a_wrong_token_is_refused_and_a_dead_server_unreachable(
    installation: Installation,
) -> None:
    ca = str(installation.ca)
    here = {"TOWLINE_URL": installation.url, "TOWLINE_CA_FILE": ca}
    wrong = installation.run("whoami", code=4, environ={"TOWLINE_TOKEN": "twu_wrong", **here})
    assert "token" in wrong.stderr
    there = {"TOWLINE_URL": "https://127.0.0.1:1", "TOWLINE_TOKEN": "x"}
    assert "cannot reach" in installation.run("whoami", code=5, environ=there).stderr


def test_a_watched_list_shows_each_change(installation: Installation) -> None:
    log = installation.folder / "watch.log"
    words = [TOWLINE, "clusters", "list", "-w", "-o", "name"]
    watch = installation.group.spawn(words, log=log, env=installation.environment)
    for name in ("watched-1", "watched-2"):
        installation.run("clusters", "create", name, "--show-token")
        poll_until(log.read_text, lambda text, name=name: name in text, 20, every=0.1)
        installation.run("clusters", "detach", name, "--yes")
    watch.terminate()
    watch.wait(20)


def test_a_subscription_returns_changes(installation: Installation) -> None:
    """Without a change it would wait for a minute."""
    target = ControlPlaneTarget(installation.url, installation.token, installation.ca.read_text())
    clock = SystemClock()
    document: GraphQLDocument[dict[str, object]] = GraphQLDocument(
        "subscription { clusterDelta { id } }"
    )
    with closing(Subscription(target, document)) as subscription:
        installation.run("clusters", "create", "told", "--show-token")
        began = clock.monotonic()
        (change, *_) = subscription.changes(60)
        assert change.keys() == {"clusterDelta"}
        assert clock.monotonic() - began < 30
    for url, token in ((installation.url, "wrong"), ("https://127.0.0.1:1", "x")):
        with pytest.raises(Unavailable, match="subscri"):
            Subscription(target._replace(url=url, token=token), document)
    installation.run("clusters", "detach", "told", "--yes")


def test_a_cluster_is_made_shown_and_forgotten(installation: Installation) -> None:
    words = ("clusters", "create", "Made here", "--handle", "made", "--tag", "env=test")
    result = installation.run(*words, "-o", "json")
    made, file = json.loads(result.stdout), installation.folder / "made.token"
    token = file.read_text().strip()
    assert token.startswith("twa_") and token not in result.stdout + result.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    assert made["tags"] == [{"name": "env", "value": "test"}]
    installation.run("clusters", "rotate-token", "made")
    second = file.read_text().strip()
    assert second.startswith("twa_") and second != token
    words_of_ci = ("clusters", "rotate-token", "made", "--show-token", "-o", "json")
    assert json.loads(installation.run(*words_of_ci).stdout)["deployToken"] not in (token, second)
    selected = ("clusters", "list", "-l", "env=test", "--field-selector")
    assert installation.run(*selected, "health=NEVER", "-o", "name").stdout == "made\n"
    assert installation.run(*selected, "health=CONNECTED", "-o", "name").stdout == ""
    assert "unknown field" in installation.run(*selected, "name=x", code=2).stderr
    shown = yaml.safe_load(installation.run("clusters", "get", "made", "-o", "yaml").stdout)
    assert shown["id"] == made["id"]
    assert "deployToken" not in shown
    assert "made.token already exists" in installation.run(*words, code=2).stderr
    file.unlink()
    installation.run(*words, code=1)
    installation.run("clusters", "detach", "made", "--yes")
    assert "made" not in installation.run("clusters", "list", "-o", "name").stdout.split()


def test_a_fleet_is_applied_once_and_then_unchanged(
    installation: Installation, git_server: GitServer, tmp_path: Path
) -> None:
    repository = git_server.create_repository("shop")
    repository.commit({"dev/a.yaml": "", "prod/a.yaml": ""})
    path = tmp_path / "fleet.yaml"
    path.write_text(fleet("shop", repository.url))
    dry = installation.run("apply", "-f", str(path), "--dry-run").stdout
    assert dry.count("would be created") == 6
    made = installation.run("apply", "-f", str(path)).stdout
    assert made.count(" created") == 6
    again = installation.run("apply", "-f", str(path)).stdout.splitlines()
    assert [line[0] for line in again] == ["="] * 6
    path.write_text(fleet("shop", repository.url).replace("soakSeconds: 5", "soakSeconds: 6"))
    assert installation.run("apply", "-f", str(path)).stdout.splitlines()[-2:] == [
        "~ Pipeline shop changed",
        "  spec.edges[0].gates[1].rule.soakSeconds: 5 → 6",
    ]
    shown = installation.run("pipelines", "get", "shop").stdout
    assert "release" in shown and "APPROVAL" in shown
    checked = installation.run("projects", "check", "shop-dev/web")
    assert "allowed (the fence allows everything)" in checked.stdout
    assert "applied as the agent itself" in checked.stderr
    why = installation.run("services", "why", "shop-dev/web").stdout
    assert repository.url in why
    assert "of shop-dev last seen never" in why


def test_a_chart_is_deployed_by_one_command(installation: Installation, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("replicas: 2")
    token = ("--token-file", str(tmp_path / "token"))
    installation.run("clusters", "create", "Charted", "--handle", "charted", *token)
    place = ("--cluster", "charted", "--namespace", "web")
    chart = ("--chart", "podinfo", "--chart-repo", "https://charts.example.org")
    more = ("--chart-version", "^6", "--values", str(tmp_path / "values.yaml"), "-o", "json")
    made = installation.run("services", "create", "podinfo", *place, *chart, *more)
    found = json.loads(made.stdout)
    assert found["repository"]["url"] == "https://charts.example.org"
    helm = found["helm"]
    assert (helm["chart"], helm["version"], helm["values"]) == ("podinfo", "^6", "replicas: 2")
    assert found["follows"] == "podinfo ^6"
    for wrong in (chart[:2], ("--folder", "a"), (*chart, "--repo", "https://git.example.org/a")):
        refused = installation.run("services", "create", "x", *place, *wrong, code=2)
        assert "either --repo and --folder, or --chart and --chart-repo" in refused.stderr
    installation.run("clusters", "delete", "charted", "--yes")


def test_services_are_made_changed_and_deleted_by_commands(
    installation: Installation, git_server: GitServer
) -> None:
    repository = git_server.create_repository("tool")
    sha = repository.commit({"deploy/a.yaml": CONFIG})
    installation.run("repos", "create", repository.url)
    installation.run("clusters", "create", "Lonely", "--handle", "lonely")
    words = ["--cluster", "lonely", "--repo", repository.url, "--folder", "deploy"]
    made = installation.run("services", "create", "tool", *words, "--namespace", "tool")
    assert "towline services wait lonely/tool" in made.stderr
    poll_until(
        lambda: json.loads(installation.run("services", "get", "lonely/tool", "-o", "json").stdout),
        lambda seen: seen["sha"] == sha,
        30,
    )
    shows_its_copy(installation, git_server, repository.url)
    changes = ("--set", "a=b", "--ref", "next", "--soak", "60")
    installation.run("services", "update", "lonely/tool", *changes)
    shown = json.loads(installation.run("services", "get", "lonely/tool", "-o", "json").stdout)
    assert shown["verification"]["soakSeconds"] == 60 and shown["hold"] is None
    assert shown["git"] == {"ref": "next", "folder": "deploy"}
    assert shown["configuration"] == [{"name": "a", "value": "b"}]
    assert "rendered" in installation.run("services", "history", "lonely/tool").stdout
    vain = installation.run("services", "wait", "lonely/tool", code=1)
    assert "has no branch, tag or commit 'next'" in vain.stderr
    installation.run("services", "sync", "lonely/tool")
    manifests = installation.run("services", "manifests", "lonely/tool")
    assert "# 1 object, " in manifests.stderr
    shown = yaml.safe_load(manifests.stdout)
    assert (shown["kind"], shown["metadata"]["name"]) == ("ConfigMap", "tool")
    installation.run("services", "delete", "lonely/tool", "--yes")
    assert "lonely/tool" not in installation.run("services", "list", "-o", "name").stdout
    installation.run("repos", "delete", repository.url, "--yes")


def test_a_mistyped_repository_is_told_by_every_command(
    installation: Installation, git_server: GitServer
) -> None:
    """In the list, in the service, by `why`, and while somebody waits."""
    url = f"{git_server.create_repository('typed').url}-wrongly"
    installation.run("clusters", "create", "Typed", "--handle", "typed", "--show-token")
    words = ["services", "create", "web", "--cluster", "typed", "--namespace", "web"]
    installation.run(*words, "--repo", url, "--folder", "deploy")
    waited = installation.run("services", "wait", "typed/web", code=1).stderr
    assert waited.count("  FAILED: ") == 1 and url in waited
    assert "typed/web failed, and a retry cannot help" in waited
    why = installation.run("services", "why", "typed/web").stdout
    assert f"✗ git            {url}: " in why and "has no such repository" in why
    assert "has no such repository" in installation.run("services", "list").stdout
    (row,) = [line for line in installation.run("repos", "list").stdout.splitlines() if url in line]
    assert "FAILED" in row and "has no such repository" in row
    installation.run("services", "delete", "typed/web", "--yes")
    installation.run("repos", "delete", url, "--yes")


def test_a_mistyped_cluster_or_project_adds_no_repository(installation: Installation) -> None:
    url = "https://git.example.org/unused.git"
    words = ("services", "create", "web", "--namespace", "web", "--repo", url, "--folder", "a")
    installation.run(*words, "--cluster", "nowhere", code=3)
    installation.run(*words, "--cluster", "nowhere", "--project", "nothing", code=3)
    assert url not in installation.run("repos", "list").stdout


def shows_its_copy(installation: Installation, git_server: GitServer, url: str) -> None:
    """`repos get` tells of health, copy and owner, and in people's words what is wrong."""

    def shown() -> dict:
        return json.loads(installation.run("repos", "get", url, "-o", "json").stdout)

    good = poll_until(shown, lambda seen: seen["size"], 60)
    assert good["health"] == "PULLABLE" and good["owner"] and good["error"] is None
    assert good["polledAt"] and good["pulledAt"]
    git_server.fail = HTTPStatus.INTERNAL_SERVER_ERROR
    assert "state before the poll" in installation.run("repos", "sync", url).stderr
    failed = poll_until(shown, lambda seen: seen["health"] == "FAILED", 60)
    assert "answered 500" in failed["error"] and failed["size"] == good["size"]
    assert "answered 500" in installation.run("repos", "get", url).stdout
    git_server.fail = None
    installation.run("repos", "sync", url)
    poll_until(shown, lambda seen: seen["health"] == "PULLABLE", 60)


CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tool}\ndata: {a: b}\n"


def test_tokens_are_made_used_and_revoked(installation: Installation) -> None:
    made = installation.run("tokens", "create", "robot", "--days", "1")
    assert made.stdout.startswith("twu_") and made.stdout.count("\n") == 1
    mine = {
        "TOWLINE_URL": installation.url,
        "TOWLINE_CA_FILE": str(installation.ca),
        "TOWLINE_TOKEN": made.stdout.strip(),
    }
    assert "admin" in installation.run("whoami", environ=mine).stdout
    rows = json.loads(installation.run("tokens", "list", "-o", "json").stdout)
    (robot,) = [row for row in rows if row["name"] == "robot"]
    installation.run("tokens", "delete", robot["id"], "--yes")
    installation.run("whoami", code=4, environ=mine)
    assert "deleteAccessToken" in installation.run("audit", "-q", "deleteAccessToken").stdout


def test_kubeconfig_is_merged_and_its_plugin_gives_the_token(installation: Installation) -> None:
    installation.run("clusters", "create", "Prod", "--handle", "prod")
    installation.run("kubeconfig", "prod", "--merge")
    home = Path(installation.environment["HOME"])
    merged = yaml.safe_load((home / ".kube" / "config").read_text())
    assert merged["current-context"] == "towline-prod"
    plugin = merged["users"][0]["user"]["exec"]
    said = subprocess.run(
        [str(PROGRAMS / "towline-kubectl-login"), *plugin["args"]],
        capture_output=True,
        text=True,
        check=True,
        env=installation.environment,
    )
    assert json.loads(said.stdout)["status"] == {"token": installation.token}
    embedded = yaml.safe_load(installation.run("kubeconfig", "prod", "--embed-token").stdout)
    assert embedded["users"][0]["user"] == {"token": installation.token}


def test_the_operator_helps_who_cannot_sign_in(installation: Installation) -> None:
    data = ("--data", str(installation.data))
    token = installation.run("admin", "create-token", "admin", *data).stdout.strip()
    here = {"TOWLINE_URL": installation.url, "TOWLINE_CA_FILE": str(installation.ca)}
    assert "admin" in installation.run("whoami", environ={"TOWLINE_TOKEN": token, **here}).stdout
    installation.run("admin", "create-token", "nobody@example.org", *data, code=3)
    assert "schema" in installation.run("admin", "migrate", *data).stderr
    findings = json.loads(installation.run("admin", "doctor", *data, "-o", "json").stdout)
    assert {one["check"]: one["health"] for one in findings} == dict.fromkeys(
        ("data", "disk", "secrets", "store", "audit", "fences", "certificate", "git"), "ok"
    )


def test_the_doctor_names_what_others_could_read(tmp_path: Path) -> None:
    (tmp_path / "encryption.key").write_text("secret")
    (tmp_path / "encryption.key").chmod(0o644)
    done = subprocess.run(
        [TOWLINE, "admin", "doctor", "--data", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "chmod 600" in done.stdout


def test_an_agent_without_its_token_file_says_so(tmp_path: Path) -> None:
    words = ["agent", "--url", "127.0.0.1:1", "--token-file", str(tmp_path / "none")]
    done = subprocess.run([TOWLINE, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "none" in done.stderr


def test_a_service_of_two_repositories_and_a_password_that_comes_later(
    installation: Installation, git_server: GitServer, tmp_path: Path
) -> None:
    """Own files here, others there; the other repository is private and needs `repos update`."""
    own = git_server.create_repository("own")
    own.commit({"web/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"})
    other = git_server.create_repository("other", password="open sesame")
    other.commit({"lib/b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"})
    installation.run("repos", "create", own.url)
    installation.run("repos", "create", other.url)
    path = tmp_path / "two.yaml"
    path.write_text(
        f"{HEAD}kind: Cluster\nmetadata: {{name: two}}\n---\n"
        f"{HEAD}kind: Service\nmetadata: {{name: web, cluster: two}}\nspec:\n"
        f"  namespace: shop\n  repository: {own.url}\n  ref: main\n  folder: web\n"
        f"  sources: [{{repository: '{other.url}', folder: lib, path: lib}}]\n"
    )
    installation.run("apply", "-f", str(path))

    def shown() -> dict:
        return json.loads(installation.run("services", "get", "two/web", "-o", "json").stdout)

    assert poll_until(shown, lambda seen: seen["errors"], 20, every=0.2)["digest"] is None
    (tmp_path / "password").write_text("open sesame\n")
    words = ("--username", "git", "--password-file", str(tmp_path / "password"))
    changed = installation.run("repos", "update", other.url, *words, "-o", "json").stdout
    assert json.loads(changed)["signIn"] == "BASIC" and "sesame" not in changed
    assert not poll_until(shown, lambda seen: seen["digest"], 30, every=0.2)["errors"]


def test_the_signing_key_of_a_running_server_is_that_of_its_folder(
    installation: Installation,
) -> None:
    """What agents are given to check renders with: read from the API, and from the disk."""
    api = GraphQLClient(
        ControlPlaneTarget(installation.url, installation.token, installation.ca.read_text())
    )
    signing_key = api.ask("{ installation { signingKey } }")["installation"]["signingKey"]
    kept = installation.run("admin", "signing-key", "--data", str(installation.data)).stdout
    assert signing_key.strip() == kept.strip() and "PUBLIC KEY" in signing_key
