"""Repositories with commits that real tools sign: git, ssh-keygen, gpg, gpgsm and openssl."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import PrivateFormat, pkcs12

from tests.fakes.authority import FakeAuthority, IssuedCertificate

_PERSON = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_NOSYSTEM": "1",
}


def ssh_key(folder: Path, name: str, *kind: str) -> Path:
    """Makes an SSH key; returns the file of the private key."""
    path = folder / name
    command = ["ssh-keygen", "-q", "-t", *kind, "-N", "", "-C", name, "-f", str(path)]
    subprocess.run(command, check=True)
    return path


def gpg_key(home: Path, user: str, kind: str = "ed25519", expires: str = "0") -> str:
    """Makes a GPG key in a new home; returns its fingerprint."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    create = ("--passphrase", "", "--quick-gen-key", user, kind, "sign", expires)
    gpg(home, "--pinentry-mode", "loopback", *create)
    listed = gpg(home, "--with-colons", "--list-keys", user)
    return next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr"))


def gpg(home: Path, *words: str, given: str = "") -> str:
    """Runs gpg; returns its output."""
    command = ["gpg", "--homedir", str(home), "--batch", "--yes", "--quiet", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, input=given)
    return done.stdout


def gpgsm_home(home: Path, signer: IssuedCertificate, *path: FakeAuthority) -> str:
    """Makes a home of gpgsm with a signer and the path to a trusted root, and a program that signs
    without questions; returns the signer's fingerprint.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    root = path[-1].certificate.fingerprint(hashes.SHA1()).hex().upper()
    (home / "trustlist.txt").write_text(f"{root} S relax\n")
    (home / "gpgsm.conf").write_text("disable-crl-checks\n")
    (home / "gpg-agent.conf").write_text("allow-loopback-pinentry\n")
    program = home / "gpgsm"
    loopback = "--batch --pinentry-mode loopback --passphrase-fd 3"
    program.write_text(f'#!/bin/sh\nexec gpgsm {loopback} "$@" 3<<EOF\npassword\nEOF\n')
    program.chmod(0o700)
    _start_agent(home)
    _import_signer(home, signer, path)
    return signer.certificate.fingerprint(hashes.SHA1()).hex().upper()


def _import_signer(home: Path, signer: IssuedCertificate, path: Sequence[FakeAuthority]) -> None:
    """Imports a signer's key and certificates into a home of gpgsm.

    GnuPG 2.2 cannot decrypt about one PKCS #12 file in a hundred, because it drops the leading
    zeros of numbers from which it derives a key; so each attempt writes a file with new salts.
    """
    file = home / "signer.p12"
    command = [str(home / "gpgsm"), "--quiet", "--import", str(file)]
    env = {**os.environ, "GNUPGHOME": str(home)}
    for _ in range(5):
        file.write_bytes(_pkcs12(signer, path))
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
        if done.returncode == 0:
            return
    raise RuntimeError(f"gpgsm does not import the signer: {done.stderr}")


def _pkcs12(signer: IssuedCertificate, path: Sequence[FakeAuthority]) -> bytes:
    # GnuPG 2.2 reads no newer encryption of such files.
    algorithm = pkcs12.PBES.PBESv1SHA1And3KeyTripleDESCBC
    protection = PrivateFormat.PKCS12.encryption_builder().key_cert_algorithm(algorithm)
    protection = protection.kdf_rounds(1000).hmac_hash(hashes.SHA1())
    return pkcs12.serialize_key_and_certificates(
        b"ada",
        signer.key,
        signer.certificate,
        [authority.certificate for authority in path],
        protection.build(b"password"),
    )


def _start_agent(home: Path) -> None:
    """Starts the agent of a home: on a busy machine, that takes longer than gpgsm waits."""
    command = ["gpgconf", "--homedir", str(home), "--launch", "gpg-agent"]
    for _ in range(20):
        if subprocess.run(command, check=False, capture_output=True).returncode == 0:
            return
    raise TimeoutError("gpg-agent does not start")


def stop_agent(home: Path) -> None:
    """Ends the agent of a home."""
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)


@dataclass
class SignedRepository:
    """A repository whose commits are signed; `config` are Git's settings for signatures."""

    path: Path
    config: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)

    def init(self, *options: str) -> "SignedRepository":
        self.path.mkdir(parents=True)
        self.git("init", "-q", "-b", "main", *options)
        return self

    def git(self, *words: str, given: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        """Runs git; returns its output."""
        return self._run(*words, given=given, env=env, check=True).stdout

    def commit(self, *options: str, content: str = "a: 1\n", when: str = "") -> str:
        """Makes a commit; returns its id."""
        (self.path / "app").mkdir(exist_ok=True)
        (self.path / "app/values.yaml").write_text(content)
        self.git("add", "-A")
        times = {"GIT_COMMITTER_DATE": when, "GIT_AUTHOR_DATE": when} if when else {}
        self.git("commit", "-q", "--allow-empty", "-m", "change", *options, env=times)
        return self.git("rev-parse", "HEAD").decode().strip()

    def object(self, id: str) -> bytes:
        """The bytes of a commit."""
        return self.git("cat-file", "commit", id)

    def store(self, data: bytes) -> str:
        """Stores the bytes of a commit, malformed or not; returns its id."""
        words = ("hash-object", "-t", "commit", "-w", "--literally", "--stdin")
        return self.git(*words, given=data).decode().strip()

    def accepts(self, id: str) -> bool:
        """The verdict of `git verify-commit`."""
        return self._run("verify-commit", id, check=False).returncode == 0

    def _run(
        self,
        *words: str,
        given: bytes = b"",
        env: Mapping[str, str] | None = None,
        check: bool,
    ) -> subprocess.CompletedProcess[bytes]:
        settings = [word for pair in self.config.items() for word in ("-c", "=".join(pair))]
        return subprocess.run(
            ["git", "-C", str(self.path), *settings, *words],
            check=check,
            capture_output=True,
            input=given,
            env={**os.environ, **_PERSON, **self.env, **(env or {})},
        )


def ssh_repository(folder: Path, key: Path, allowed: str) -> SignedRepository:
    """A repository whose commits an SSH key signs, and the allowed signers of Git."""
    signers = folder / "allowed"
    signers.parent.mkdir(parents=True, exist_ok=True)
    signers.write_text(allowed)
    config = {
        "gpg.format": "ssh",
        "user.signingkey": f"{key}.pub",
        "gpg.ssh.allowedSignersFile": str(signers),
    }
    return SignedRepository(folder / "repository", config, {"TZ": "UTC"}).init()


def gpg_repository(folder: Path, home: Path, fingerprint: str) -> SignedRepository:
    """A repository whose commits a GPG key signs."""
    env = {"GNUPGHOME": str(home)}
    return SignedRepository(folder, {"user.signingkey": fingerprint}, env).init()


def x509_repository(folder: Path, home: Path, fingerprint: str) -> SignedRepository:
    """A repository whose commits a certificate of gpgsm signs."""
    config = {
        "gpg.format": "x509",
        "gpg.x509.program": str(home / "gpgsm"),
        "user.signingkey": fingerprint,
    }
    return SignedRepository(folder, config, {"GNUPGHOME": str(home)}).init()
