"""Versions of Go that are good enough to build with."""

from pathlib import Path

import pytest

from towline.demo.clusters.go_toolchain import find_go, parse_version, version_of


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go1.26.8\n", (1, 26, 8)),
        ("go1.27", (1, 27)),
        ("go1.27rc1", (1, 27)),
        ("devel +abc", ()),
        ("", ()),
    ],
)
def test_versions_are_read_as_numbers(text: str, version: tuple[int, ...]) -> None:
    """So that 1.9 is older than 1.26."""
    assert parse_version(text) == version


def test_a_program_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    """A file that is no program is older than any Go."""
    assert version_of(tmp_path / "go") == ()


def test_a_go_on_the_path_that_is_new_enough_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The developer's own toolchain comes first."""
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go1.99.1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_go() == go
