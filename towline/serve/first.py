"""The data folder before anything else uses it, and the first administrator's way in."""

from pathlib import Path

import structlog

from controlplane.compose import ControlPlane
from controlplane.domain.access import SYSTEM
from controlplane.ports import Store
from fleet.identity import TokenKind
from fleet.runtime.files import write_whole

log = structlog.get_logger(__name__)

_FIRST = "admin"
_FOLDERS = ("tls", "git")
_FILES = ("towline.db*", "encryption.key", "admin.token", "setup.url", "tls/*.key")


def keep_private(data: Path, *, embedded: bool) -> None:
    """Make the data folder, and let only the owner into what is ours in it.

    `embedded`: the store is a file there; SQLite's own files take over the mode of the first.
    A folder that the operator has made stays as it is.
    """
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    (data / "git").mkdir(exist_ok=True)
    if embedded:
        (data / "towline.db").touch(mode=0o600)
    for folder in _FOLDERS:
        _tighten(data / folder, 0o700)
    for pattern in _FILES:
        for file in data.glob(pattern):
            _tighten(file, 0o600)


async def leave_first_token(plane: ControlPlane, path: Path) -> None:
    """Make the first administrator, and leave the token in this file.

    A process that died after the commit has left nobody who can sign in: while the file is
    absent and nobody has ever used a token, another is made.
    """
    people = plane.verbs.people
    secret = await people.bootstrap()
    if secret is None and not _is_left(path) and not await _anybody_was_here(plane.store):
        secret = await people.token_for(SYSTEM, _FIRST, "first start")
    if secret is not None:
        write_whole(path, secret.encode())
        log.info("made the first administrator", action="setup.admin", token_file=str(path))


async def leave_setup_link(plane: ControlPlane, base: str, path: Path) -> None:
    """Leave a link by which the first administrator chooses a password, until somebody has."""
    secret = await plane.signin.setup_secret()
    if secret is None:
        _remove(path)
        return
    write_whole(path, f"{base}/setup?token={secret}\n".encode())
    log.info("waits for its first administrator", action="setup.link", link_file=str(path))


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _is_left(path: Path) -> bool:
    return path.exists()


async def _anybody_was_here(store: Store) -> bool:
    async with store.read() as tx:
        tokens = await tx.tokens.select(kind=TokenKind.USER)
    return any(token.last_used_at is not None for token in tokens)


def _tighten(path: Path, mode: int) -> None:
    if not path.exists():
        return
    found = path.stat().st_mode & 0o777
    try:
        if found & ~mode:
            path.chmod(mode)
    except OSError:
        # What Kubernetes mounts is root's; our group has to read it.
        if found & 0o007:
            log.warning("others may look into it, and it is not ours to change", path=str(path))
