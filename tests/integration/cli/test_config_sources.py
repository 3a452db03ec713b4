"""An installation that its repository runs, and that one command rebuilds from there."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.manifest_examples import SINK, WITHOUT_SECRETS
from tests.fakes.manifest_world import document
from tests.integration.cli.conftest import Installation, new_installation
from towline.cli.shell.polling import poll_until
from towline.demo.git_server import GitServer, ServedRepository

BOOTSTRAP = ("--folder", "fleet", "--role", "admin", "--prune", "--deletion-budget", "5")
NAME = "fleet"
SINK_URL = "https://hooks.example.org/x"


@pytest.fixture(scope="module")
def repository() -> Iterator[ServedRepository]:
    with GitServer() as server:
        repository = server.create_repository("fleet")
        repository.commit({"README.md": "The installation"})
        yield repository


def bootstrap(installation: Installation, repository: ServedRepository) -> None:
    create = ("config-sources", "create", NAME, "--repository", repository.url)
    made = installation.run(*create, *BOOTSTRAP)
    assert f"towline config-sources get {NAME}" in made.stderr


def source(installation: Installation) -> dict[str, object]:
    found: dict[str, object] = json.loads(
        installation.run("config-sources", "get", NAME, "-o", "json").stdout
    )
    return found


def wait_for(installation: Installation, result: str, commit: str) -> dict[str, object]:
    """Waits until a commit was reconciled with a result."""
    installation.run("config-sources", "sync", NAME)
    found = poll_until(
        lambda: source(installation),
        lambda row: row["seenSha"] == commit and row["result"] != "UNKNOWN"
        and (row["result"] != "SYNCED" or row["appliedSha"] == commit),
        180,
        every=0.2,
    )  # fmt: skip
    assert found["result"] == result, found
    return found


def test_one_command_rebuilds_the_installation_from_git(
    installation: Installation, repository: ServedRepository, tmp_path: Path
) -> None:
    (installation.folder / "all.yaml").write_text(WITHOUT_SECRETS)
    installation.run("apply", "-f", "all.yaml")
    installation.run("projects", "create", "sealed")
    words = ("secrets", "seal", "sealed-key", "--project", "sealed")
    sealed = installation.run(*words, stdin="canary-51c6-otter\n").stdout
    (installation.folder / "sealed.yaml").write_text(sealed)
    installation.run("apply", "-f", "sealed.yaml")
    (installation.folder / "sink.yaml").write_text(document("NotificationSink", "hook", SINK))
    sink = installation.run("secrets", "seal-manifests", "-f", "sink.yaml").stdout
    assert SINK_URL not in sink
    (installation.folder / "sink.yaml").write_text(sink)
    installation.run("apply", "-f", "sink.yaml")
    bootstrap(installation, repository)
    before = installation.run("export").stdout
    assert sealed.splitlines()[-1] in before and "canary-" not in before
    assert "kind: NotificationSink" in before and SINK_URL not in before
    commit = repository.commit({"fleet/installation.yaml": before})
    wait_for(installation, "SYNCED", commit)
    assert installation.run("export").stdout == before
    key = (installation.data / "encryption.key").read_bytes()
    with new_installation(tmp_path / "second", key) as second:
        bootstrap(second, repository)
        wait_for(second, "SYNCED", commit)
        assert second.run("export").stdout == before
        # The address was opened: the sink shows its host.
        sinks = json.loads(second.run("notifications", "sinks", "-o", "json").stdout)
        assert [sink["name"] for sink in sinks] == ["hook"]
        versions = json.loads(second.run("secrets", "versions", "sealed-key", "-o", "json").stdout)
        assert [version["number"] for version in versions] == [1]


def test_a_commit_with_problems_changes_nothing_and_names_the_line(
    installation: Installation, repository: ServedRepository
) -> None:
    before = installation.run("export").stdout
    commit = repository.commit({"fleet/wrong.yaml": "---\nkind: Nothing\n"})
    wait_for(installation, "FAILED", commit)
    shown = installation.run("config-sources", "plan", NAME, code=1)
    assert "fleet/wrong.yaml:2: " in shown.stderr
    assert installation.run("export").stdout == before
    wait_for(installation, "SYNCED", repository.commit({"fleet/wrong.yaml": ""}))


def test_a_plan_waits_for_an_approval(
    installation: Installation, repository: ServedRepository
) -> None:
    installation.run("config-sources", "update", NAME, "--mode", "approval")
    cluster = "apiVersion: towline.io/v1\nkind: Cluster\nmetadata:\n  name: new-1\n"
    commit = repository.commit({"fleet/new.yaml": cluster})
    found = wait_for(installation, "AWAITING_APPROVAL", commit)
    shown = installation.run("config-sources", "plan", NAME, code=7)
    assert "+ Cluster new-1 would be created" in shown.stdout
    digest = str(found["planDigest"])
    installation.run("config-sources", "approve", NAME, "--digest", "0" * 64, code=1)
    installation.run("config-sources", "approve", NAME, "--digest", digest)
    poll_until(
        lambda: source(installation), lambda row: row["appliedSha"] == commit, 180, every=0.2
    )
    assert "name: new-1" in installation.run("export", "Cluster").stdout


def test_a_change_of_a_field_in_git_comes_with_a_warning(
    installation: Installation, repository: ServedRepository
) -> None:
    installation.run("config-sources", "update", NAME, "--mode", "automatic", "--drift", "heal")
    url = "https://git.example.org/warned.git"
    declared = document("GitRepository", url, {"username": "bot"})
    wait_for(installation, "SYNCED", repository.commit({"fleet/warned.yaml": declared}))
    said = installation.run("repos", "update", url, "--username", "other").stderr
    assert f"configuration source {NAME} manages username, and its next check reverts" in said
    installation.run("config-sources", "suspend", NAME)
    said = installation.run("repos", "update", url, "--username", "other").stderr
    assert "its next commit overwrites the change" in said
    installation.run("config-sources", "resume", NAME)


def test_a_suspended_source_is_shown_as_such(installation: Installation) -> None:
    installation.run("config-sources", "suspend", NAME)
    assert "SUSPENDED" in installation.run("config-sources", "list").stdout
    installation.run("config-sources", "sync", NAME, code=1)
    installation.run("config-sources", "resume", NAME)
    assert "SUSPENDED" not in installation.run("config-sources", "list").stdout


def test_a_missing_account_is_created_only_with_a_role(
    installation: Installation, repository: ServedRepository
) -> None:
    create = ("config-sources", "create", "other", "--repository", repository.url)
    refused = installation.run(*create, "--folder", "other", code=2)
    assert "give --role" in refused.stderr


def test_a_deleted_source_keeps_its_resources(installation: Installation) -> None:
    before = installation.run("export", "Cluster").stdout
    installation.run("config-sources", "delete", NAME, "--yes")
    assert installation.run("export", "Cluster").stdout == before
