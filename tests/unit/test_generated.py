"""Generated files are what their sources generate."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROTOS = ("core/wire/v1/options.proto", "core/wire/v1/agent.proto")


def test_stubs_are_what_the_protocol_generates(tmp_path: Path) -> None:
    """`make proto` would change nothing."""
    places = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi")]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", ".", *places, *PROTOS]
    subprocess.run(command, cwd=ROOT, check=True)
    stubs = sorted((ROOT / "core/wire/v1").glob("*_pb2*.py*"))
    assert len(stubs) == 4
    for stub in stubs:
        assert stub.read_text() == (tmp_path / stub.relative_to(ROOT)).read_text(), stub


def test_the_printed_schema_is_the_committed_one() -> None:
    """`make schema` would change nothing."""
    command = [sys.executable, "-m", "controlplane.graphql.schema"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert (ROOT / "schema.graphql").read_text() == printed
