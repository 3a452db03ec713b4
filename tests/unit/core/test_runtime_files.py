"""Files that must be whole."""

import os
from pathlib import Path

import pytest

from controlplane.secrets.backends.envelope import load_or_make_key
from core.runtime.atomic_files import write_atomically


def test_a_file_is_replaced_and_private(tmp_path: Path) -> None:
    """The new content has the new mode, whatever was there; nothing is left beside it."""
    path = tmp_path / "key"
    path.write_bytes(b"old")
    path.chmod(0o644)
    (tmp_path / "key.part").write_bytes(b"left by a process that was killed")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up in the middle takes nothing away."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "key"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"


def test_an_empty_key_is_made_anew(tmp_path: Path) -> None:
    """A process that was killed at its first start may have left one; it never sealed a thing."""
    path = tmp_path / "encryption.key"
    path.touch()
    key = load_or_make_key(path)
    assert len(key) == 32
    assert load_or_make_key(path) == key
    assert path.stat().st_mode & 0o777 == 0o600
