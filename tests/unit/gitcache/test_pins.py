"""Pins of a clone on a disk that fails."""

import errno
from pathlib import Path
from typing import Any, cast

import pytest

from gitcache.mirror.clone import Clone

SHA = "a" * 40


async def test_a_disk_that_was_full_locks_no_pin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once there is room again, the same commit can be pinned."""
    (tmp_path / "objects" / SHA[:2]).mkdir(parents=True)
    (tmp_path / "objects" / SHA[:2] / SHA[2:]).touch()
    clone = Clone(tmp_path, cast(Any, None))

    def full(self: Path, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="No space"):
            await clone.pin({"main": SHA})
    await clone.pin({"main": SHA})
    assert clone.pins() == {"main": SHA}
