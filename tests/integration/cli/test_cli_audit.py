"""`towline audit` and `towline notifications` against a real control plane."""

import json
from pathlib import Path

from tests.integration.cli.conftest import Installation


def test_the_trail_is_filtered_and_exported(installation: Installation) -> None:
    installation.run("clusters", "create", "audited")
    shown = installation.run("audit", "--action", "createCluster", "-o", "json").stdout
    assert "audited" in {row["target"] for row in json.loads(shown)}
    lines = installation.run("audit", "export", "--action", "createCluster").stdout.splitlines()
    assert "audited" in {json.loads(line)["target"] for line in lines}
    assert "CEF:0|Towline" in installation.run("audit", "export", "--format", "cef").stdout
    said = installation.run("audit", "export", "--since", "yesterday", code=2)
    assert "since" in said.stderr
    ends = json.loads(installation.run("audit", "chains", "-o", "json").stdout)
    assert {one["kind"] for one in ends} == {"CHANGE", "SIGN_IN", "REQUEST", "AGENT"}


def test_sinks_and_routers_are_set_and_deleted(installation: Installation, tmp_path: Path) -> None:
    """The address comes from a file, and only its host is shown."""
    (tmp_path / "url").write_text("https://hooks.example.org/services/T0/secret\n")
    given = ("--type", "webhook", "--url-file", str(tmp_path / "url"))
    made = installation.run("notifications", "set-sink", "ops", *given).stdout
    assert "hooks.example.org" in made and "services/T0" not in made
    assert "whsec_" in made
    assert "whsec_" not in installation.run("notifications", "sinks", "-o", "json").stdout
    router = ("--sink", "ops", "--event", "service.*", "--severity", "error")
    assert "service.*" in installation.run("notifications", "set-router", "r", *router).stdout
    (_, row) = installation.run("notifications", "routers").stdout.splitlines()
    assert [cell for cell in row.split() if cell in ("ops", "service.*")] == ["service.*", "ops"]
    (_, sink) = installation.run("notifications", "sinks").stdout.splitlines()
    assert "[" not in sink
    tested = installation.run("notifications", "test-sink", "ops")
    assert " ops " in tested.stdout and "towline notifications deliveries" in tested.stderr
    words = ("set-router", "r", "--sink", "ops", "--project")
    assert "towline projects list" in installation.run("notifications", *words, "no", code=3).stderr
    assert "r" in installation.run("notifications", "delete-sink", "ops", "--yes", code=1).stderr
    installation.run("notifications", "delete-router", "r", "--yes")
    installation.run("notifications", "delete-sink", "ops", "--yes")
    assert installation.run("notifications", "sinks", "-o", "json").stdout.strip() == "[]"
