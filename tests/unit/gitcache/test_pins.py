"""Pins of a clone on a disk that fails."""

from pathlib import Path
from typing import Any, TextIO, cast

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

    def full(path: str, mode: str) -> TextIO:
        Path(path).touch(exist_ok=False)
        return open("/dev/full", "w")

    with monkeypatch.context() as patch:
        patch.setattr("gitcache.mirror.clone.open", full, raising=False)
        with pytest.raises(OSError, match="No space"):
            await clone.pin({"main": SHA})
    await clone.pin({"main": SHA})
    assert clone.pins() == {"main": SHA}
