"""Promises of the previous version to clients, agents and operators are kept."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from graphql import build_schema, find_breaking_changes

from core.wire.v1 import agent_pb2, options_pb2
from tests import previous

ROOT = Path(__file__).parents[2]
PROTOS = ("core/wire/v1/options.proto", "core/wire/v1/agent.proto")
BOUNDS = (options_pb2.max_len, options_pb2.max_items, options_pb2.max_value)


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> FileDescriptor:
    """The protocol as the version before compiled it."""
    folder = previous.unpack(tmp_path_factory.mktemp("wire") / "before", *PROTOS)
    compiled = folder / "all"
    words = ["-m", "grpc_tools.protoc", "-I", ".", "--include_imports"]
    subprocess.run(
        [sys.executable, *words, f"--descriptor_set_out={compiled}", *PROTOS],
        cwd=folder,
        check=True,
    )
    pool = DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes()).file:
        pool.Add(file)
    return pool.FindFileByName(PROTOS[1])


def fields_of(file: FileDescriptor) -> Iterator[FieldDescriptor]:
    """Every field of every message, those of maps included."""
    waiting = list(file.message_types_by_name.values())
    while waiting:
        message = waiting.pop()
        yield from message.fields
        waiting += message.nested_types


def place(field: FieldDescriptor) -> tuple[str, int]:
    """Its message and number; names do not travel."""
    return field.containing_type.full_name, field.number


def shape(field: FieldDescriptor) -> tuple[object, ...]:
    """All by which two peers must agree to understand the field alike."""
    of = field.message_type or field.enum_type
    oneof = field.containing_oneof
    return (
        field.type,
        field.is_repeated,
        of and of.full_name,
        oneof and oneof.name,
    )


def bounds_of(field: FieldDescriptor) -> list[int]:
    """The limits that its reader enforces; 0: none."""
    extensions: Any = descriptor_pb2.FieldOptions.FromString(
        field.GetOptions().SerializeToString()
    ).Extensions
    return [extensions[one] for one in BOUNDS]


def test_fields_of_the_wire_mean_what_they_meant(wire: FileDescriptor) -> None:
    """None has gone, and none has another type or place."""
    now = {place(field): field for field in fields_of(agent_pb2.DESCRIPTOR)}
    before = {place(field): field for field in fields_of(wire)}
    assert len(before) > 200
    assert [field.full_name for key, field in before.items() if key not in now] == []
    changed = [field.full_name for key, field in before.items() if shape(now[key]) != shape(field)]
    assert changed == []


def test_no_wire_limit_is_tighter_than_in_the_previous_version(wire: FileDescriptor) -> None:
    """No limit is tighter than a peer of the version before believes."""
    now = {place(field): bounds_of(field) for field in fields_of(agent_pb2.DESCRIPTOR)}
    tighter = [
        field.full_name
        for field in fields_of(wire)
        for before, after in zip(bounds_of(field), now[place(field)], strict=True)
        if after and (not before or after < before)
    ]
    assert tighter == []


def test_words_and_calls_of_the_wire_are_still_there(wire: FileDescriptor) -> None:
    def values(enum: EnumDescriptor) -> set[tuple[str, int]]:
        return {(one.name, one.number) for one in enum.values}

    for name, enum in wire.enum_types_by_name.items():
        assert values(enum) <= values(agent_pb2.DESCRIPTOR.enum_types_by_name[name])
    for name, service in wire.services_by_name.items():
        calls = agent_pb2.DESCRIPTOR.services_by_name[name].methods_by_name
        for call in service.methods:
            assert calls[call.name].input_type.full_name == call.input_type.full_name
            assert calls[call.name].output_type.full_name == call.output_type.full_name


def test_every_query_of_the_version_before_is_still_valid() -> None:
    before = build_schema(previous.text("schema.graphql"))
    now = build_schema((ROOT / "schema.graphql").read_text())
    broken = {one.description for one in find_breaking_changes(before, now)}
    assert broken == set()


@pytest.mark.parametrize("page", ["settings", "metrics", "interface"])
def test_names_that_operators_hold_on_to_are_still_there(page: str) -> None:
    """Settings, metrics, ports, paths, kinds of tokens and codes of errors, as documented."""
    path = f"docs/reference/{page}.md"
    before, now = first_cells(previous.text(path)), first_cells((ROOT / path).read_text())
    assert len(before) > 20
    assert before - now == set()


def test_commands_and_their_options_are_still_there() -> None:
    path = "docs/reference/cli.md"
    before, now = options(previous.text(path)), options((ROOT / path).read_text())
    assert len(before) > 100
    assert before - now == set()


def first_cells(text: str) -> set[str]:
    """Code in the first column of tables."""
    rows = re.findall(r"^\| (`.+?`(?:, `.+?`)*) \|", text, re.M)
    return {name for row in rows for name in re.findall(r"`(.+?)`", row)}


def options(text: str) -> set[tuple[str, str]]:
    """Pairs of a command and one of its options."""
    sections = re.findall(r"^## `(towline.*?)`\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return {
        (command, option)
        for command, section in sections
        for option in ["", *re.findall(r"^  (?:-\w, )?(--[\w-]+)", section, re.M)]
    }
