"""Finds users and groups by the names that commands accept."""

from towline.cli.access.generated import Group, User, group, user
from towline.cli.shell.session import first_found
from towline.operations import GraphQLApi


def find_user(api: GraphQLApi, email: str) -> User:
    """Finds a user by email address."""
    return first_found(f"user {email}", lambda: user(api, email), listed_by="users list")


def find_user_group(api: GraphQLApi, name: str) -> Group:
    """Finds a user group by name."""
    return first_found(f"group {name}", lambda: group(api, name), listed_by="groups list")
