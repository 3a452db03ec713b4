"""An installation in one file, and out of it again as another that is the same."""

import asyncio
import hashlib
import io
import json
import re
import tarfile
from pathlib import Path

import pytest

from core.age import AgeIdentity
from core.errors import Conflict, Invalid
from tests.integration.serve.conftest import Running, running
from towline.backup import backup, restore
from towline.settings import ServeSettings

CLUSTERS = "{ clusters(first: 10) { edges { node { name } } } }"


def nothing(_table: str, _rows: int) -> None:
    """Progress that nobody looks at."""


async def taken(hub: Running, target: Path, *recipients: str) -> None:
    """A backup of a control plane that goes on."""
    settings = ServeSettings(data=hub.data)
    await asyncio.to_thread(backup, settings, target, recipients, nothing)


async def test_a_restored_control_plane_knows_its_people_and_clusters(
    hub: Running, tmp_path: Path
) -> None:
    """Tokens, the authority, clusters and the audit trail, by an encrypted file."""
    await hub.cluster("kept")
    key = AgeIdentity.generate()
    recording = hub.data / "recordings" / "2026" / "one.cast"
    recording.parent.mkdir(parents=True)
    recording.write_text("{}")
    await taken(hub, tmp_path / "one.backup", key.recipient)
    await hub.cluster("later")
    whole = (tmp_path / "one.backup").read_bytes()
    assert hub.token.encode() not in whole and whole.startswith(b"age-encryption.org/")
    assert (tmp_path / "one.backup").stat().st_mode & 0o777 == 0o600
    again = tmp_path / "again"
    found = await asyncio.to_thread(
        restore, ServeSettings(data=again), tmp_path / "one.backup", [key], nothing
    )
    assert found.audit_rows >= 1 and found.broken == ()
    for name in ("tls/ca.key", "encryption.key", "recordings/2026/one.cast"):
        assert (again / name).read_bytes() == (hub.data / name).read_bytes()
        assert (again / name).stat().st_mode & 0o777 == 0o600
    async with running(again) as restored:
        assert restored.token == hub.token
        edges = (await restored.ask(CLUSTERS))["clusters"]["edges"]
        assert [edge["node"]["name"] for edge in edges] == ["kept"]
        await restored.cluster("after")


async def test_a_backup_that_cannot_be_restored_leaves_nothing(
    hub: Running, tmp_path: Path
) -> None:
    """Damaged, for other keys, or onto an installation: refused, with the reason."""
    key, other = AgeIdentity.generate(), AgeIdentity.generate()
    locked, plain = tmp_path / "locked", tmp_path / "plain"
    await taken(hub, locked, key.recipient)
    await taken(hub, plain)
    cut, swapped = tmp_path / "cut", tmp_path / "swapped"
    cut.write_bytes(plain.read_bytes()[:-2000])
    swap(plain, swapped)
    again = ServeSettings(data=tmp_path / "again")

    async def refusal(source: Path, *keys: AgeIdentity, of: ServeSettings = again) -> str:
        with pytest.raises((Conflict, Invalid)) as caught:
            await asyncio.to_thread(restore, of, source, list(keys), nothing)
        return str(caught.value)

    assert "age key" in await refusal(locked)
    assert "can decrypt this age file" in await refusal(locked, other)
    assert "not a complete" in await refusal(cut)
    assert "damaged" in await refusal(swapped)
    assert "not a complete" in await refusal(Path(__file__))
    assert "already" in await refusal(plain, of=ServeSettings(data=hub.data))
    assert not list((tmp_path / "again").rglob("*.key"))
    with pytest.raises(Conflict, match="already exists"):
        await taken(hub, plain)
    with pytest.raises(Invalid, match="not a public key of age"):
        await taken(hub, tmp_path / "new", "age1nobody")


def swap(source: Path, target: Path) -> None:
    """The same members, one with other content."""
    with tarfile.open(source) as old, tarfile.open(target, "w:gz") as new:
        for member in old:
            content = old.extractfile(member)
            assert content is not None
            data = content.read()
            if member.name == "store.jsonl":
                data = re.sub(rb"admin", b"nimda", data)
            new.addfile(member, io.BytesIO(data))


@pytest.mark.parametrize("name", ["data/../x", "data/towline.db", "/etc/x", "data/git/config"])
async def test_files_that_no_backup_holds_are_refused(tmp_path: Path, name: str) -> None:
    """A made-up archive writes nowhere."""
    files = {"store.jsonl": b'{"rows":0}\n', name: b"x"}
    manifest = {
        "format": 1,
        "version": "0",
        "made": "2026-01-01T00:00:00Z",
        "schema_": "0001",
        "rows": 0,
        "files": {one: hashlib.sha256(data).hexdigest() for one, data in files.items()},
    }
    files["backup.json"] = json.dumps(manifest).encode()
    made = tmp_path / "made"
    with tarfile.open(made, "w:gz") as tar:
        for one, data in files.items():
            member = tarfile.TarInfo(one)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    settings = ServeSettings(data=tmp_path / "again")
    with pytest.raises(Invalid, match="unexpected file"):
        await asyncio.to_thread(restore, settings, made, [], nothing)
    assert not (tmp_path / "again").exists()
