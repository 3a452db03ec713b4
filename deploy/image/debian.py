"""Fetches Debian packages with apt for any architecture, and extracts them without scripts."""

import io
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

from deploy.image.tree import TreeEntry, place_files

WANTED = (
    "ca-certificates",
    "coreutils",
    "dash",
    "git",
    "libpython3-stdlib",
    "libstdc++6",
    "openssh-client",
    "python3-minimal",
)
# Dependencies that are only needed for installation, or for unused commands.
LEFT_OUT = re.compile(
    r"(adduser|debconf|debianutils|dpkg|gcc-\d+-base|git-man|lib(acl1|audit.*|cap-ng0|db5\.3.*|error-perl"
    r"|gdbm.*|nsl2|pam.*|perl.*|readline.*|semanage.*|sepol.*|tirpc.*)|media-types|openssl|passwd|perl.*"
    r"|readline-common|tar)_"
)
_DROPPED = re.compile(
    r"usr/share/(bash-completion|bug|doc/(?!.*/copyright$)|doc-base|gitweb|info|lintian|locale|man|perl5)"
    r"|usr/sbin/|usr/lib/systemd|etc/(cron|init|systemd)"
)
# The programs of git that are used, out of about a hundred in its package.
ONLY = {"coreutils": re.compile(r"usr/bin/(env|nice)$|usr/share/doc/")}
_AUTHORITIES = "usr/share/ca-certificates/mozilla/"


def fetch(architecture: str, cache: Path) -> list[Path]:
    """Fetches the packages and their dependencies; apt verifies them with the archive's keys."""
    for name in ("state/lists/partial", "cache/archives/partial", "cache/none/partial"):
        (cache / name).mkdir(parents=True, exist_ok=True)
    (cache / "state" / "status").touch()
    _apt(architecture, cache, "update")
    _apt(architecture, cache, "install", "--download-only", "--yes", *WANTED)
    # Uses an empty folder: apt does not list packages that are already in the cache, and an earlier
    # run may have left older versions there.
    nothing = ("-o", "Dir::Cache::Archives=none")
    asked = _apt(architecture, cache, "install", "--print-uris", "--yes", *nothing, *WANTED)
    names = re.findall(r"^'[^']*' (\S+\.deb) ", asked, re.MULTILINE)
    archives = cache / "cache" / "archives"
    return [archives / name for name in sorted(names) if not LEFT_OUT.match(name)]


def _apt(architecture: str, cache: Path, *words: str) -> str:
    options = {
        "Dir::State": cache / "state",
        "Dir::State::status": cache / "state" / "status",
        "Dir::Cache": cache / "cache",
        "APT::Architecture": architecture,
        "APT::Architectures::": architecture,
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
    }
    given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    done = subprocess.run(["apt-get", "-q", *given, *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"apt-get {words[0]} for {architecture}: {done.stderr.strip()}")
    return done.stdout


def opened(packages: list[Path]) -> dict[str, TreeEntry]:
    """Extracts all files, and adds the CA bundle that a package's script would write."""
    tree: dict[str, TreeEntry] = {}
    for package in packages:
        tree |= dict(_files(package))
        name = package.name.partition("_")[0]
        status = subprocess.run(["dpkg-deb", "-f", package], capture_output=True, check=True).stdout
        tree[f"var/lib/dpkg/status.d/{name}"] = TreeEntry(status, mode=0o644)
    authorities = [tree[path].data or b"" for path in sorted(tree) if path.startswith(_AUTHORITIES)]
    tree["etc/ssl/certs/ca-certificates.crt"] = TreeEntry(b"".join(authorities), mode=0o644)
    tree["usr/bin/sh"] = TreeEntry(link="dash", mode=0o777)
    tree["usr/bin/python"] = TreeEntry(link="python3", mode=0o777)
    return tree


def _files(package: Path) -> Iterator[tuple[str, TreeEntry]]:
    content = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True
    ).stdout
    only = ONLY.get(package.name.partition("_")[0])
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for head in tar:
            path = place_files(head.name)
            if head.isdir() or _DROPPED.match(path) or (only and not only.match(path)):
                continue
            # Clears setuid and setgid bits: no program needs them.
            mode = head.mode & 0o755
            if head.issym():
                yield path, TreeEntry(link=head.linkname, mode=0o777)
            elif head.islnk():
                yield path, TreeEntry(_read(tar, tar.getmember(head.linkname)), mode=mode)
            else:
                yield path, TreeEntry(_read(tar, head), mode=mode)


def _read(tar: tarfile.TarFile, head: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(head)
    assert file is not None, head.name
    return file.read()
