"""Secrets and configuration flow on the command line.

The commands are those of docs/how-to/secrets.md and docs/how-to/configuration.md. No command
prints a secret's value.
"""

import json
from pathlib import Path

from tests.integration.cli.conftest import Installation

CANARY = "canary-5d02-of-the-command-line"
FILES = """
apiVersion: towline.io/v1
kind: Secret
metadata: {{name: api-key}}
spec:
  description: of the payment service
  value: {{env: API_KEY}}
---
apiVersion: towline.io/v1
kind: GitRepository
metadata: {{name: {url}}}
---
apiVersion: towline.io/v1
kind: Cluster
metadata: {{name: dev}}
---
apiVersion: towline.io/v1
kind: Service
metadata: {{name: shop, cluster: dev}}
spec:
  namespace: shop
  repository: {url}
  ref: main
  folder: shop
  secrets: {{key: {{secret: api-key}}}}
  imports: [{{alias: host, service: dev/db, export: host, default: none}}]
---
apiVersion: towline.io/v1
kind: Service
metadata: {{name: db, cluster: dev}}
spec:
  namespace: db
  repository: {url}
  ref: main
  folder: db
  exports: [{{name: host, value: "${{service.name}}.svc"}}]
---
apiVersion: towline.io/v1
kind: Context
metadata: {{name: network}}
spec:
  values: {{zone: a, size: 1}}
  types: {{size: NUMBER}}
  byReference: true
  secrets: {{password: {{env: API_KEY}}}}
  overrides: [{{cluster: dev, values: {{size: 2}}}}]
---
apiVersion: towline.io/v1
kind: GlobalService
metadata: {{name: agents}}
spec:
  selector: {{tags: {{tier: none}}}}
  template:
    name: agents
    namespace: agents
    repository: {url}
    ref: main
    folder: agents
    secrets: {{key: {{secret: api-key}}}}
"""


def test_a_secret_from_its_first_value_to_its_end(
    installation: Installation, tmp_path: Path
) -> None:
    """Set, apply, rotate keys, delete: and the value is in no answer and in no file of the data."""
    run, said = installation.run, ""
    file = tmp_path / "fleet.yaml"
    file.write_text(FILES.format(url="https://127.0.0.1:9/none.git"))
    said += run("secrets", "set", "db", stdin=f"{CANARY}\n").stdout
    run("secrets", "set", "session", "--generate", "48")
    assert "length: 48" in run("export", "Secret").stdout
    run("secrets", "set", "session", "--generate", "48", "--file", str(file), code=2)
    environ = {"API_KEY": CANARY}
    run("apply", "-f", str(file), "--dry-run", environ=environ)
    for signs in ("++++", "===="):
        output = run("apply", "-f", str(file), environ=environ).stdout
        named = ("Secret api-key", "Service dev/shop", "Context network", "GlobalService agents")
        for sign, name in zip(signs, named, strict=True):
            assert f"{sign} {name}" in output
        said += output
    said += run("flow", "show", "dev/shop").stdout
    assert "dev/db.host" in said and "db.svc" in said
    assert "shop" in run("flow", "affected", "dev/db").stdout
    environ["API_KEY"] = f"{CANARY}-2"
    output = run("apply", "-f", str(file), environ=environ).stdout
    assert "~ Secret api-key" in output and "~ Context network" in output
    uses = json.loads(run("secrets", "of", "dev/shop", "-o", "json").stdout)
    assert [(one["name"], one["secretName"], one["version"]) for one in uses] == [
        ("key", "api-key", 2)
    ]
    refused = run("secrets", "delete", "api-key", "--yes", code=1)
    assert "shop" in refused.stderr
    ending = run("secrets", "use", "dev/shop", "db=db@1", code=2).stderr
    assert "End 1 use of secrets by dev/shop; use --yes" in ending
    assert [use["name"] for use in uses] == ["key"]
    run("secrets", "use", "dev/shop", "db=db@1", "--yes")
    assert "dev/shop" in run("secrets", "consumers", "db").stdout
    for words in (
        ("list",), ("versions", "api-key"), ("consumers", "db"), ("rotate-keys",), ("keys",),
        ("revoke", "api-key", "1", "--yes"), ("delete", "api-key", "--yes"),
    ):  # fmt: skip
        done = run("secrets", *words)
        said += done.stdout + done.stderr
    run("secrets", "rotation", "db", "maybe", code=2)
    run("secrets", "refresh", "db", code=1)
    missing = run("secrets", "use", "dev/shop", "db=nope", code=3)
    assert "could not find secret nope" in missing.stderr
    assert CANARY not in said
    kept = [one for one in installation.folder.rglob("*") if one.is_file()]
    assert kept and not [one for one in kept if CANARY.encode() in one.read_bytes()]
