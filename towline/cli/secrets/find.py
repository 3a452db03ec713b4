"""Finds secrets by the names that commands accept."""

from towline.cli.secrets.generated import Secret, secret
from towline.cli.shell.session import first_found
from towline.operations import GraphQLApi


def find_secret(api: GraphQLApi, name: str) -> Secret:
    """Finds a secret by name."""
    return first_found(f"secret {name}", lambda: secret(api, name), listed_by="secrets list")
