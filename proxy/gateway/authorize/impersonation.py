"""Impersonation that a client asks for (`kubectl --as`)."""

from urllib.parse import unquote

from core.errors import Forbidden, Invalid
from proxy.domain.access import AUTHENTICATED, AuthenticatedUser, Impersonation, RequestGrant


def allowed_impersonation(
    identity: AuthenticatedUser, grant: RequestGrant, handle: str, fields: list[tuple[str, str]]
) -> Impersonation:
    """Returns the requested user to impersonate. Forbidden: the grant does not allow it."""
    rule = grant.may_impersonate
    if rule is None or grant.passthrough:
        raise Forbidden(f'user "{identity.name}" may not act as another user on cluster "{handle}"')
    target = parse_impersonation(fields)
    forbidden = rule.forbidden_part(target)
    if forbidden is not None:
        raise Forbidden(
            f'user "{identity.name}" may not act as {forbidden} on cluster "{handle}"'
            f"{_advice(forbidden)}"
        )
    return target


def _advice(forbidden: str) -> str:
    """Explains that a pattern without `system:` covers no system identity."""
    kind, _, quoted = forbidden.partition(" ")
    name = quoted.strip('"')
    if not name.startswith("system:") or name.startswith("system:serviceaccount:"):
        return ""
    return f": a role must list {kind}:{name}, because * covers no system: name"


def parse_impersonation(fields: list[tuple[str, str]]) -> Impersonation:
    """Parses the client's own `Impersonate-*` fields. Invalid: they name no single user.
    Drops the group `system:authenticated`, which the API server gives to every user.
    """
    users = [value for name, value in fields if name == "impersonate-user"]
    uids = [value for name, value in fields if name == "impersonate-uid"]
    groups = [value for name, value in fields if name == "impersonate-group"]
    extra = tuple(
        (unquote(name.removeprefix("impersonate-extra-")), value)
        for name, value in fields
        if name.startswith("impersonate-extra-")
    )
    recognized = len(users) + len(uids) + len(groups) + len(extra)
    if len(users) != 1 or len(uids) > 1 or recognized != len(fields):
        raise Invalid("Impersonate- fields must name one user, and groups, a uid or extras with it")
    listed_groups = tuple(group for group in groups if group != AUTHENTICATED)
    return Impersonation(users[0], listed_groups, uids[0] if uids else None, extra)
