"""Bundles on disk: whole or not there."""

from pathlib import Path

import pytest

from core.errors import Invalid, NotFound, Unavailable
from core.spec.bundle import make_bundle
from syncagent.state.bundles import BundleFiles

BUNDLE = make_bundle([{"kind": "A"}, {"kind": "B"}])


@pytest.fixture
def files(tmp_path: Path) -> BundleFiles:
    """An empty folder of bundles."""
    return BundleFiles(tmp_path / "bundles")


async def test_a_saved_bundle_survives_a_restart(files: BundleFiles, tmp_path: Path) -> None:
    """Whole, by parts, and found by another instance."""
    await files.save(BUNDLE.digest, BUNDLE.data)
    again = BundleFiles(tmp_path / "bundles")
    assert again.has(BUNDLE.digest)
    assert await again.load(BUNDLE.digest) == BUNDLE.data
    assert again.part(BUNDLE.digest, 0, 12) == BUNDLE.data[:12]


async def test_other_bytes_are_refused(files: BundleFiles) -> None:
    """Nothing of them is kept."""
    with pytest.raises(Invalid, match="digest"):
        await files.save(BUNDLE.digest, b"other")
    assert not files.has(BUNDLE.digest)


async def test_damage_on_disk_is_noticed(files: BundleFiles, tmp_path: Path) -> None:
    """A torn file counts as absent, and is fetched again."""
    await files.save(BUNDLE.digest, BUNDLE.data)
    path = next((tmp_path / "bundles").iterdir())
    path.write_bytes(BUNDLE.data[:5])
    with pytest.raises(NotFound, match="damaged"):
        await files.load(BUNDLE.digest)
    assert not files.has(BUNDLE.digest)


async def test_half_written_files_are_swept_away(tmp_path: Path) -> None:
    """Leftovers of a killed process go at the next start."""
    (tmp_path / "x.0.part").write_bytes(b"half")
    BundleFiles(tmp_path)
    assert not list(tmp_path.iterdir())


async def test_only_needed_bundles_are_kept(files: BundleFiles) -> None:
    """Others are removed."""
    other = make_bundle([{"kind": "C"}])
    await files.save(BUNDLE.digest, BUNDLE.data)
    await files.save(other.digest, other.data)
    files.keep_only([other.digest])
    assert (files.has(BUNDLE.digest), files.has(other.digest)) == (False, True)


@pytest.mark.parametrize("digest", ["", "sha256:..", "md5:" + "0" * 64, "sha256:" + "/" * 64])
def test_a_digest_is_never_a_path(files: BundleFiles, digest: str) -> None:
    """Only sha256 and hexadecimal digits reach the file system."""
    with pytest.raises(Invalid):
        files.has(digest)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """Unavailable, for people."""
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="state directory"):
        BundleFiles(tmp_path / "file" / "bundles")
