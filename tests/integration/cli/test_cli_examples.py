"""The worked examples of the documentation are applied as they stand, and are then complete."""

from pathlib import Path

from tests.integration.cli.conftest import Installation

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "pipelines"


def test_every_example_is_applied_as_it_stands(installation: Installation) -> None:
    """Applied again, nothing of it has to be changed; another password begins a rotation."""
    words = ("apply", "-f", str(EXAMPLES))
    password = {"DB_PASSWORD": "canary-0e0e-example"}
    made = installation.run(*words, environ=password).stdout.splitlines()
    assert {line[0] for line in made} <= set("+ "), made
    names = [line for line in made if line.startswith("+ Pipeline")]
    assert names == [f"+ Pipeline {one} created" for one in ("ingress", "bank", "orders", "shop")]
    again = installation.run(*words, environ=password).stdout.splitlines()
    assert {line[0] for line in again} == {"="}, again
    changed = installation.run(*words, environ={"DB_PASSWORD": "canary-0e0f-example"}).stdout
    assert "~ Secret wiki-db-password changed\n  version: 1 → 2" in changed
