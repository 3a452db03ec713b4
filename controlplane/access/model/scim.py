"""SCIM 2.0 (RFC 7643, RFC 7644): requests of directories about users and groups, as plain values.

Of a user the control plane keeps address, name and active state; of a group its name and members.
It accepts and ignores all other attributes. Attribute names are case-insensitive and booleans may
be text, because directories in use send them so.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from controlplane.platform.limits import check_count
from controlplane.platform.names import check_text
from core.errors import Invalid
from core.json_object import JsonObject

MAX_EDITS = 1_000
MAX_MEMBERS = 10_000
_MAX_ID_LENGTH = 255
_URN = re.compile(r"urn:ietf:params:scim:schemas:core:2\.0:(?:user|group):", re.IGNORECASE)
_ID = re.compile(r"[\w-]{1,64}")
_MEMBER = re.compile(r'members\[value eq "([\w-]{1,64})"\]', re.IGNORECASE)
_FILTER = re.compile(r'\s*(\w{1,40}) eq "([^"\\]{1,320})"\s*', re.IGNORECASE)
_PATH = re.compile(r"[\w$.:\-]{1,200}(?:\[[^\[\]]{1,400}\][\w.]{0,80})?")
_NAMES = ("displayname", "name.formatted")
_TRUTHS = {"true": True, "false": False}

Json = Mapping[str, object]


class MemberOperation(StrEnum):
    """Effect of an edit on the members it names."""

    ADD = "add"
    REMOVE = "remove"
    REPLACE = "replace"


class MemberEdit(NamedTuple):
    """One step of a membership change, with user ids."""

    how: MemberOperation
    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class UserPush:
    """A directory's data of a user; None: not given."""

    address: str | None = None
    name: str | None = None
    external_id: str | None = None
    active: bool | None = None


@dataclass(frozen=True, slots=True)
class GroupPush:
    """A directory's data of a group; None and no edits: not given."""

    name: str | None = None
    external_id: str | None = None
    edits: tuple[MemberEdit, ...] = ()

    def members(self, current: Collection[str]) -> frozenset[str]:
        """Returns the members after the edits, in order."""
        members = frozenset(current)
        for how, ids in self.edits:
            if how is MemberOperation.REPLACE:
                members = ids
            else:
                members = members | ids if how is MemberOperation.ADD else members - ids
        return members


class AttributeFilter(NamedTuple):
    """One attribute, in lower case, and its expected value."""

    attribute: str
    value: str


def parse_user(body: object) -> UserPush:
    """Parses a whole user. Raises Invalid, naming the attribute."""
    given = _lowered(body)
    push = _person(given)
    if push.address is None:
        raise Invalid("is missing", field="userName")
    if push.name is None and (full := _full_name(given.get("name"))):
        push = replace(push, name=full)
    return push


def parse_user_patch(body: object) -> UserPush:
    """Parses a user PATCH. Raises Invalid, naming the operation."""
    push = UserPush()
    for how, path, value in _operations(body):
        if how is MemberOperation.REMOVE:
            changed = UserPush(external_id="") if path == "externalid" else UserPush()
        else:
            changed = _person({path: value} if path else _lowered(value))
        push = _merged(push, changed)
    return push


def parse_group(body: object) -> GroupPush:
    """Parses a whole group; without `members` the members stay. Raises Invalid, naming the
    attribute.
    """
    push = _group(MemberOperation.REPLACE, _lowered(body))
    if push.name is None:
        raise Invalid("is missing", field="displayName")
    return push


def parse_group_patch(body: object) -> GroupPush:
    """Parses a group PATCH. Raises Invalid, naming the operation."""
    push = GroupPush()
    for how, path, value in _operations(body):
        changed = _group_operation(how, path, value)
        push = GroupPush(
            changed.name if changed.name is not None else push.name,
            changed.external_id if changed.external_id is not None else push.external_id,
            (*push.edits, *changed.edits),
        )
    return push


def parse_filter(text: str, known: Collection[str]) -> AttributeFilter | None:
    """Parses a filter; None without one. Raises Invalid unless it is `attribute eq "value"`."""
    if not text.strip():
        return None
    found = _FILTER.fullmatch(text)
    names = {name.lower() for name in known}
    if found is None or found[1].lower() not in names or not found[2].isprintable():
        like = " or ".join(f'{name} eq "…"' for name in known)
        raise Invalid(f"unsupported filter; expected {like}", field="filter")
    return AttributeFilter(found[1].lower(), found[2])


def _person(given: Json) -> UserPush:
    name = next((given[key] for key in _NAMES if given.get(key)), None)
    return UserPush(
        _text(given.get("username"), "userName", 320),
        _text(name, "displayName", 255),
        _text(given.get("externalid"), "externalId", _MAX_ID_LENGTH),
        _truth(given.get("active")),
    )


def _group(how: MemberOperation, given: Json) -> GroupPush:
    edits = ()
    if given.get("members") is not None:
        edits = (MemberEdit(how, _ids(given["members"])),)
    return GroupPush(
        _text(given.get("displayname"), "displayName", 255),
        _text(given.get("externalid"), "externalId", _MAX_ID_LENGTH),
        edits,
    )


def _group_operation(how: MemberOperation, path: str, value: object) -> GroupPush:
    match = _MEMBER.fullmatch(path)
    if match is not None:
        if how is not MemberOperation.REMOVE:
            raise Invalid("a single member can only be removed", field="path")
        return GroupPush(edits=(MemberEdit(how, frozenset((match[1],))),))
    if how is not MemberOperation.REMOVE:
        return _group(how, {path: value} if path else _lowered(value))
    if path == "members":
        everybody = MemberEdit(MemberOperation.REPLACE, frozenset())
        return GroupPush(edits=(MemberEdit(how, _ids(value)) if value else everybody,))
    return GroupPush(external_id="") if path == "externalid" else GroupPush()


def _operations(body: object) -> Iterator[tuple[MemberOperation, str, object]]:
    """Returns (operation, lower-case path without its schema, value)
    for each operation of a PATCH.
    """
    operations = _lowered(body).get("operations")
    if not isinstance(operations, Sequence) or not 0 < len(operations) <= MAX_EDITS:
        raise Invalid(f"1 to {MAX_EDITS} of them", field="Operations")
    for operation in map(_lowered, operations):
        how, path = str(operation.get("op", "")).lower(), operation.get("path") or ""
        if how not in list(MemberOperation):
            raise Invalid("must be add, remove or replace", field="op")
        if not isinstance(path, str) or (path and not _PATH.fullmatch(path)):
            raise Invalid("is not the path of an attribute", field="path")
        if how == MemberOperation.REMOVE and not path:
            raise Invalid("is required for remove", field="path")
        plain = _URN.sub("", path)
        yield MemberOperation(how), plain if "[" in plain else plain.lower(), operation.get("value")


def _merged(first: UserPush, then: UserPush) -> UserPush:
    return UserPush(
        first.address if then.address is None else then.address,
        first.name if then.name is None else then.name,
        first.external_id if then.external_id is None else then.external_id,
        first.active if then.active is None else then.active,
    )


def _lowered(body: object) -> JsonObject:
    """Returns the object with lower-case names and without schema prefixes."""
    if not isinstance(body, Mapping):
        raise Invalid("must be a JSON object", field="body")
    return {_URN.sub("", str(name)).lower(): value for name, value in body.items()}


def _full_name(value: object) -> str | None:
    if not isinstance(value, Mapping):
        return None
    parts = _lowered(value)
    whole = parts.get("formatted") or " ".join(
        str(parts[part]) for part in ("givenname", "familyname") if parts.get(part)
    )
    return _text(whole or None, "name", 255)


def _ids(value: object) -> frozenset[str]:
    """Returns the ids of members: objects with a `value` each."""
    several = value if isinstance(value, list) else [value]
    check_count(len(several), "members", MAX_MEMBERS)
    ids: set[str] = set()
    for member in several:
        id = _lowered(member).get("value")
        if not isinstance(id, str) or not _ID.fullmatch(id):
            raise Invalid('must be objects like {"value": "<user id>"}', field="members")
        ids.add(id)
    return frozenset(ids)


def _text(value: object, field: str, longest: int) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise Invalid("is text", field=field)
    return check_text(value, field, longest) if value else value


def _truth(value: object) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    truth = _TRUTHS.get(value.lower()) if isinstance(value, str) else None
    if truth is None:
        raise Invalid("must be true or false", field="active")
    return truth
