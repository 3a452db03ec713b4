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
_BOOLEANS = {"true": True, "false": False}

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
    attributes = _with_lowercase_keys(body)
    push = _user_push(attributes)
    if push.address is None:
        raise Invalid("is missing", field="userName")
    if push.name is None and (full := _name_from_parts(attributes.get("name"))):
        push = replace(push, name=full)
    return push


def parse_user_patch(body: object) -> UserPush:
    """Parses a user PATCH. Raises Invalid, naming the operation."""
    push = UserPush()
    for how, path, value in _patch_operations(body):
        if how is MemberOperation.REMOVE:
            changed = UserPush(external_id="") if path == "externalid" else UserPush()
        else:
            changed = _user_push({path: value} if path else _with_lowercase_keys(value))
        push = _merge_pushes(push, changed)
    return push


def parse_group(body: object) -> GroupPush:
    """Parses a whole group; without `members` the members stay. Raises Invalid, naming the
    attribute.
    """
    push = _group_push(MemberOperation.REPLACE, _with_lowercase_keys(body))
    if push.name is None:
        raise Invalid("is missing", field="displayName")
    return push


def parse_group_patch(body: object) -> GroupPush:
    """Parses a group PATCH. Raises Invalid, naming the operation."""
    push = GroupPush()
    for how, path, value in _patch_operations(body):
        changed = _group_push_of_operation(how, path, value)
        push = GroupPush(
            changed.name if changed.name is not None else push.name,
            changed.external_id if changed.external_id is not None else push.external_id,
            (*push.edits, *changed.edits),
        )
    return push


def parse_filter(text: str, attributes: Collection[str]) -> AttributeFilter | None:
    """Parses a filter; None without one. Raises Invalid unless it is `attribute eq "value"`."""
    if not text.strip():
        return None
    match = _FILTER.fullmatch(text)
    names = {name.lower() for name in attributes}
    if match is None or match[1].lower() not in names or not match[2].isprintable():
        expected = " or ".join(f'{name} eq "…"' for name in attributes)
        raise Invalid(f"unsupported filter; expected {expected}", field="filter")
    return AttributeFilter(match[1].lower(), match[2])


def _user_push(attributes: Json) -> UserPush:
    name = next((attributes[key] for key in _NAMES if attributes.get(key)), None)
    return UserPush(
        _text(attributes.get("username"), "userName", 320),
        _text(name, "displayName", 255),
        _text(attributes.get("externalid"), "externalId", _MAX_ID_LENGTH),
        _boolean(attributes.get("active")),
    )


def _group_push(operation: MemberOperation, attributes: Json) -> GroupPush:
    edits = ()
    if attributes.get("members") is not None:
        edits = (MemberEdit(operation, _member_ids(attributes["members"])),)
    return GroupPush(
        _text(attributes.get("displayname"), "displayName", 255),
        _text(attributes.get("externalid"), "externalId", _MAX_ID_LENGTH),
        edits,
    )


def _group_push_of_operation(operation: MemberOperation, path: str, value: object) -> GroupPush:
    match = _MEMBER.fullmatch(path)
    if match is not None:
        if operation is not MemberOperation.REMOVE:
            raise Invalid("a single member can only be removed", field="path")
        return GroupPush(edits=(MemberEdit(operation, frozenset((match[1],))),))
    if operation is not MemberOperation.REMOVE:
        return _group_push(operation, {path: value} if path else _with_lowercase_keys(value))
    if path == "members":
        remove_all = MemberEdit(MemberOperation.REPLACE, frozenset())
        return GroupPush(
            edits=(MemberEdit(operation, _member_ids(value)) if value else remove_all,)
        )
    return GroupPush(external_id="") if path == "externalid" else GroupPush()


def _patch_operations(body: object) -> Iterator[tuple[MemberOperation, str, object]]:
    """Returns (operation, lower-case path without its schema, value)
    for each operation of a PATCH.
    """
    operations = _with_lowercase_keys(body).get("operations")
    if not isinstance(operations, Sequence) or not 0 < len(operations) <= MAX_EDITS:
        raise Invalid(f"1 to {MAX_EDITS} of them", field="Operations")
    for operation in map(_with_lowercase_keys, operations):
        how, path = str(operation.get("op", "")).lower(), operation.get("path") or ""
        if how not in list(MemberOperation):
            raise Invalid("must be add, remove or replace", field="op")
        if not isinstance(path, str) or (path and not _PATH.fullmatch(path)):
            raise Invalid("is not the path of an attribute", field="path")
        if how == MemberOperation.REMOVE and not path:
            raise Invalid("is required for remove", field="path")
        plain = _URN.sub("", path)
        yield MemberOperation(how), plain if "[" in plain else plain.lower(), operation.get("value")


def _merge_pushes(first: UserPush, later: UserPush) -> UserPush:
    return UserPush(
        first.address if later.address is None else later.address,
        first.name if later.name is None else later.name,
        first.external_id if later.external_id is None else later.external_id,
        first.active if later.active is None else later.active,
    )


def _with_lowercase_keys(body: object) -> JsonObject:
    """Returns the object with lower-case names and without schema prefixes."""
    if not isinstance(body, Mapping):
        raise Invalid("must be a JSON object", field="body")
    return {_URN.sub("", str(name)).lower(): value for name, value in body.items()}


def _name_from_parts(value: object) -> str | None:
    if not isinstance(value, Mapping):
        return None
    parts = _with_lowercase_keys(value)
    name = parts.get("formatted") or " ".join(
        str(parts[part]) for part in ("givenname", "familyname") if parts.get(part)
    )
    return _text(name or None, "name", 255)


def _member_ids(value: object) -> frozenset[str]:
    """Returns the ids of members: objects with a `value` each."""
    members = value if isinstance(value, list) else [value]
    check_count(len(members), "members", MAX_MEMBERS)
    ids: set[str] = set()
    for member in members:
        id = _with_lowercase_keys(member).get("value")
        if not isinstance(id, str) or not _ID.fullmatch(id):
            raise Invalid('must be objects like {"value": "<user id>"}', field="members")
        ids.add(id)
    return frozenset(ids)


def _text(value: object, field: str, max_length: int) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise Invalid("is text", field=field)
    return check_text(value, field, max_length) if value else value


def _boolean(value: object) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    boolean = _BOOLEANS.get(value.lower()) if isinstance(value, str) else None
    if boolean is None:
        raise Invalid("must be true or false", field="active")
    return boolean
