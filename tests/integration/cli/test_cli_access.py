"""Projects, groups, roles and access on the command line, as in docs/how-to/access-control.md."""

import json
from pathlib import Path

import pytest
import yaml

from tests.integration.cli.conftest import Installation

ROLE = """
name: looker
rules:
  - verbs: [read]
    kinds: [project, cluster]
kubernetes: {groups: [lookers]}
"""


def test_a_team_gets_its_project(installation: Installation, tmp_path: Path) -> None:
    """From the project to who may do what there, and why."""
    run = installation.run
    run("projects", "create", "shop")
    run("groups", "create", "shop-team")
    run("users", "set", "ann@example.org", "--name", "Ann")
    run("groups", "add", "shop-team", "ann@example.org")
    run("access", "grant", "editor", "project/shop", "--group", "shop-team")
    said = run("access", "who-can", "write", "project/shop", "-o", "json").stdout
    assert [one["user"]["email"] for one in json.loads(said)] == ["admin"]
    said = run("access", "list", "project/shop", "-o", "json").stdout
    assert [one["group"]["name"] for one in json.loads(said)] == ["shop-team"]
    file = tmp_path / "role.yaml"
    file.write_text(ROLE)
    run("roles", "set", "-f", str(file))
    run("roles", "set", "-f", str(file))
    run("access", "grant", "looker", "project/shop", "--user", "ann@example.org", "--hours", "8")
    run("access", "can", "administer", "user")
    run("projects", "delete", "shop", "--yes")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rules: [{verbs: [red], kinds: [service]}]", "rules[0].verbs[0]: 'RED' is not a value of"),
        ("rules: [{verbs: [read], kind: [service]}]", "rules[0]: RoleRuleAttributes has no field"),
        ("rules: [read]", "rules: use a list of maps"),
        ("rules: 4", "rules: use a list of maps"),
        ("rules: [{verbs: read}]", "verbs: use a list of words"),
        ("apiVersion: towline.io/v1", "is a manifest"),
    ],
)
def test_a_mistake_in_a_role_is_refused_with_its_place(
    installation: Installation, tmp_path: Path, text: str, reason: str
) -> None:
    """A mistyped `kinds` must not give every kind."""
    file = tmp_path / "role.yaml"
    file.write_text(f"name: mistaken\n{text}\n")
    refused = installation.run("roles", "set", "-f", str(file), code=2).stderr
    assert f"{file}" in refused and reason in refused
    assert "mistaken" not in installation.run("roles", "list", "-o", "name").stdout


def test_a_project_gets_its_fence(installation: Installation, tmp_path: Path) -> None:
    """What is shown can be changed and given back."""
    run = installation.run
    run("projects", "create", "fenced")
    fence = yaml.safe_load(run("projects", "fence", "fenced").stdout)
    assert (fence["unrestricted"], fence["sources"]) == (False, [])
    fence["destinations"] = [{"clusters": ["prod-*"], "namespaces": ["shop"]}]
    file = tmp_path / "fence.yaml"
    file.write_text(yaml.safe_dump(fence))
    shown = yaml.safe_load(run("projects", "fence", "fenced", "-f", str(file)).stdout)
    assert shown["destinations"][0]["clusters"] == ["prod-*"]
    assert yaml.safe_load(run("projects", "fence", "fenced").stdout) == shown
    file.write_text("destinations: [{namespaces: ['[a]'], clusters: [x]}]")
    refused = run("projects", "fence", "fenced", "-f", str(file), code=2)
    assert "is not a pattern" in refused.stderr
    missing = run("projects", "check", "prod/web", code=3)
    assert "could not find service prod/web" in missing.stderr
    run("projects", "delete", "fenced", "--yes")


FENCE = """
sources: [{{url: https://git.example.org/bank.git}}]
destinations: [{{clusters: [bank-*], namespaces: [{namespace}], serviceAccount: "bank:deployer"}}]
"""


def test_services_are_made_behind_the_fence_of_their_project(
    installation: Installation, tmp_path: Path
) -> None:
    """A narrower fence names the services that it would leave outside."""
    run = installation.run
    file = tmp_path / "fence.yaml"
    run("clusters", "create", "bank-1", "--token-file", str(tmp_path / "token"))
    run("projects", "create", "bank")

    def fence(namespace: str, *options: str, code: int = 0) -> str:
        file.write_text(FENCE.format(namespace=namespace))
        return run("projects", "fence", "bank", "-f", str(file), *options, code=code).stderr

    def create(namespace: str, code: int = 0) -> str:
        place = ("--cluster", "bank-1", "--namespace", namespace, "--project", "bank")
        source = ("--repo", "https://git.example.org/bank.git", "--folder", "web")
        return run("services", "create", "web", *place, *source, code=code).stderr

    fence("bank")
    assert "no destination rule allows namespace shop of cluster bank-1" in create("shop", code=4)
    create("bank")
    rows = run("services", "list", "--cluster", "bank-1", "-o", "wide").stdout.splitlines()
    assert "PROJECT" in rows[0] and " bank " in rows[1]
    assert "applied as bank:deployer" in run("projects", "check", "bank-1/web").stderr
    assert "outside: bank-1/web. Nothing was changed" in fence("vault", code=1)
    fence("vault", "--confirm")
    refused = run("projects", "check", "bank-1/web", code=1).stdout
    assert "no destination rule allows namespace bank of cluster bank-1" in refused
    file.write_text("sources: [{repository: https://git.example.org/bank.git}]")
    wrong = run("projects", "fence", "bank", "-f", str(file), code=2).stderr
    assert "fence.yaml: sources[0]: SourceRuleAttributes needs the field 'url'" in wrong


def test_a_narrow_token_may_what_it_names(installation: Installation) -> None:
    """Reading, and nothing else; what it lacks is exit code 4."""
    made = installation.run("tokens", "create", "reader", "--verb", "read")
    token = {"TOWLINE_TOKEN": made.stdout.strip(), "TOWLINE_URL": installation.url}
    installation.run("clusters", "list", environ=token)
    refused = installation.run("projects", "create", "x", code=4, environ=token)
    assert "a token with wider scopes" in refused.stderr
    installation.run("access", "can", "write", "cluster", code=4, environ=token)


def test_access_is_asked_for_and_not_given_by_oneself(installation: Installation) -> None:
    words = ("access", "request", "admin", "everywhere", "--reason", "x", "-o", "name")
    asked = installation.run(*words).stdout.strip()
    refused = installation.run("access", "approve", asked, code=4)
    assert "your own request" in refused.stderr
    assert asked in installation.run("access", "requests", "-o", "name").stdout
