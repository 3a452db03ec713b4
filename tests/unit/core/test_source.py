"""Values that say where manifests come from."""

from dataclasses import fields

from core.identity import RepositoryId
from core.spec.source import GitCredentials, RepositorySpec


def test_a_repository_that_is_printed_shows_no_credential() -> None:
    """Logs and errors may hold the whole value."""
    secrets = {one.name: f"secret-{one.name}" for one in fields(GitCredentials)}
    spec = RepositorySpec(
        RepositoryId("shop"), "https://git.test/r", frozenset(), GitCredentials(**secrets)
    )
    assert "https://git.test/r" in repr(spec)
    assert "secret-" not in repr(spec) + str(spec) + repr(spec.credentials)
