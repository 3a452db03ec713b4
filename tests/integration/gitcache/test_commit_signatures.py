"""Signatures of commits: real tools sign, and our verdicts are those of `git verify-commit`."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import Invalid
from core.runtime.clock import SystemClock
from core.signatures.commit import read_commit
from core.signatures.trusted import TrustedSigners, read_signers
from tests.fakes.authority import FakeAuthority, email, rsa_key
from tests.fakes.security_key import SecurityKey, with_signature
from tests.integration.gitcache import signing
from tests.integration.gitcache.signing import SignedRepository

CLOCK = SystemClock()
SSH_KINDS = [("ed25519",), ("ecdsa", "-b", "256"), ("ecdsa", "-b", "521"), ("rsa", "-b", "2048")]
GPG_KINDS = ["ed25519", "rsa2048", "nistp256"]


def refusal(repository: SignedRepository, id: str, signers: TrustedSigners) -> str:
    """Our reason to refuse a commit; empty: we accept it."""
    try:
        commit = read_commit(id, repository.object(id))
        signers.verify_commit(commit, CLOCK.now())
    except Invalid as error:
        return error.message
    return ""


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path for the home of gpg, because the path of its socket has a limit."""
    folder = Path(tempfile.mkdtemp(prefix="gpg"))
    yield folder / "home"
    signing.stop_agent(folder / "home")
    shutil.rmtree(folder, ignore_errors=True)


def allowed_line(key: Path, options: str = "") -> str:
    words = Path(f"{key}.pub").read_text().split()[:2]
    return " ".join(filter(None, ["ada@example.org", options, *words]))


@pytest.mark.parametrize("kind", SSH_KINDS, ids="-".join)
def test_commits_signed_by_ssh_keys_are_accepted(tmp_path: Path, kind: tuple[str, ...]) -> None:
    key = signing.ssh_key(tmp_path, "ada", *kind)
    repository = signing.ssh_repository(tmp_path / "r", key, allowed_line(key) + "\n")
    id = repository.commit("-S")
    signers = read_signers("shop-keys", allowed_line(key))
    commit = read_commit(id, repository.object(id))
    assert repository.accepts(id)
    signer = signers.verify_commit(commit, CLOCK.now())
    assert (signer.name, signer.method) == ("ada@example.org", "ssh")
    assert signer.key in signers.expected()


def test_a_commit_of_a_sha256_repository_is_accepted(tmp_path: Path) -> None:
    key = signing.ssh_key(tmp_path, "ada", "ed25519")
    small = signing.ssh_repository(tmp_path / "r", key, allowed_line(key))
    repository = SignedRepository(tmp_path / "wide", small.config).init("--object-format=sha256")
    id = repository.commit("-S")
    assert len(id) == 64 and repository.accepts(id)
    assert refusal(repository, id, read_signers("shop-keys", allowed_line(key))) == ""


def test_unsigned_commits_and_strangers_are_refused_with_names(tmp_path: Path) -> None:
    key = signing.ssh_key(tmp_path, "ada", "ed25519")
    stranger = signing.ssh_key(tmp_path, "eve", "ed25519")
    repository = signing.ssh_repository(tmp_path / "r", key, allowed_line(key))
    signers = read_signers("shop-keys", allowed_line(key))
    unsigned = repository.commit("--no-gpg-sign")
    foreign = repository.commit(f"-S{stranger}.pub")
    for id, found in ((unsigned, "it is not signed"), (foreign, "the signer is not allowed")):
        assert not repository.accepts(id)
        text = refusal(repository, id, signers)
        assert id[:12] in text and found in text and "shop-keys (ada@example.org SHA256:" in text
    assert "SSH key SHA256:" in refusal(repository, foreign, signers)


@pytest.mark.parametrize(
    ("options", "when", "accepted"),
    [
        ('namespaces="git"', "", True),
        ('namespaces="file"', "", False),
        ('valid-before="20250101"', "2024-12-31T23:00:00+0000", True),
        ('valid-before="20250101"', "2025-01-01T00:00:01+0000", False),
        ('valid-after="20250101"', "2024-12-31T23:00:00+0000", False),
        ('valid-after="20250101",namespaces="git"', "2025-01-02T00:00:00+0000", True),
    ],
)
def test_options_of_allowed_signers_mean_what_they_mean_to_git(
    tmp_path: Path, options: str, when: str, accepted: bool
) -> None:
    key = signing.ssh_key(tmp_path, "ada", "ed25519")
    line = allowed_line(key, options)
    repository = signing.ssh_repository(tmp_path / "r", key, line)
    id = repository.commit("-S", when=when)
    assert repository.accepts(id) == accepted
    assert (refusal(repository, id, read_signers("shop-keys", line)) == "") == accepted


def test_a_signature_in_another_namespace_is_refused(tmp_path: Path) -> None:
    key = signing.ssh_key(tmp_path, "ada", "ed25519")
    repository = signing.ssh_repository(tmp_path / "r", key, allowed_line(key))
    unsigned = repository.object(repository.commit("--no-gpg-sign"))
    (tmp_path / "payload").write_bytes(unsigned)
    words = ["ssh-keygen", "-Y", "sign", "-q", "-n", "file", "-f", str(key)]
    subprocess.run([*words, str(tmp_path / "payload")], check=True)
    signed = with_signature(unsigned, (tmp_path / "payload.sig").read_text())
    id = repository.store(signed)
    assert not repository.accepts(id)
    assert "'file', not for git" in refusal(
        repository, id, read_signers("shop-keys", allowed_line(key))
    )


@pytest.mark.parametrize("touched", [True, False])
def test_security_keys_need_a_touch(tmp_path: Path, touched: bool) -> None:
    key = SecurityKey()
    repository = signing.ssh_repository(tmp_path / "r", tmp_path / "no", f"ada {key.line}\n")
    unsigned = repository.object(repository.commit("--no-gpg-sign"))
    id = repository.store(with_signature(unsigned, key.sign(unsigned, touched=touched)))
    # ssh-keygen accepts a signature without a touch as well; we are stricter.
    assert repository.accepts(id)
    signers = read_signers("shop-keys", f"ada {key.line}")
    assert (refusal(repository, id, signers) == "") == touched


@pytest.mark.parametrize("kind", GPG_KINDS)
def test_commits_signed_by_gpg_keys_are_accepted(tmp_path: Path, home: Path, kind: str) -> None:
    key = signing.gpg_key(home, "Ada <ada@example.org>", kind)
    repository = signing.gpg_repository(tmp_path / "r", home, key)
    id = repository.commit("-S")
    signers = read_signers("shop-keys", signing.gpg(home, "--armor", "--export", key))
    assert repository.accepts(id)
    commit = read_commit(id, repository.object(id))
    signer = signers.verify_commit(commit, CLOCK.now())
    assert (signer.name, signer.key) == ("Ada <ada@example.org>", key)


def test_gpg_subkeys_sign_until_they_are_revoked(tmp_path: Path, home: Path) -> None:
    key = signing.gpg_key(home, "Ada <ada@example.org>")
    add = ("--pinentry-mode", "loopback", "--passphrase", "")
    signing.gpg(home, *add, "--quick-add-key", key, "ed25519", "sign", "0")
    repository = signing.gpg_repository(tmp_path / "r", home, key)
    id = repository.commit("-S")
    armored = signing.gpg(home, "--armor", "--export", key)
    assert repository.accepts(id)
    assert refusal(repository, id, read_signers("shop-keys", armored)) == ""
    edit = [*add, "--command-fd", "0", "--edit-key", key]
    answers = "key 1\nrevkey\ny\n0\n\ny\nsave\n"
    signing.gpg(home, *edit, given=answers)
    armored = signing.gpg(home, "--armor", "--export", key)
    assert not repository.accepts(id)
    assert "is revoked" in refusal(repository, id, read_signers("shop-keys", armored))


def test_expired_and_revoked_gpg_keys_are_refused(tmp_path: Path, home: Path) -> None:
    key = signing.gpg_key(home, "Ada <ada@example.org>", expires="1d")
    repository = signing.gpg_repository(tmp_path / "r", home, key)
    past = "2020-01-01T00:00:00Z"
    id = repository.commit("-S")
    armored = signing.gpg(home, "--armor", "--export", key)
    commit = read_commit(id, repository.object(id))
    later = CLOCK.now() + timedelta(days=2)
    with pytest.raises(Invalid, match=r"the GPG key .* expired on"):
        read_signers("shop-keys", armored).verify_commit(commit, later)
    with pytest.raises(Invalid, match="from the future"):
        early = datetime.fromisoformat(past)
        read_signers("shop-keys", armored).verify_commit(commit, early)
    revocation = (home / "openpgp-revocs.d" / f"{key}.rev").read_text()
    signing.gpg(home, "--import", given=revocation.replace(":-----BEGIN", "-----BEGIN"))
    revoked = signing.gpg(home, "--armor", "--export", key)
    assert not repository.accepts(id)
    assert "is revoked" in refusal(repository, id, read_signers("shop-keys", revoked))


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple]]:
    """For each kind: a repository, a signed commit, another one, and the trusted keys."""
    folder = tmp_path_factory.mktemp("signed")
    home = Path(tempfile.mkdtemp(prefix="gpg")) / "home"
    ssh_key = signing.ssh_key(folder, "ada", "ed25519")
    ssh = signing.ssh_repository(folder / "ssh", ssh_key, allowed_line(ssh_key))
    gpg_key = signing.gpg_key(home, "Ada <ada@example.org>")
    gpg = signing.gpg_repository(folder / "gpg", home, gpg_key)
    root = FakeAuthority.root(key=rsa_key())
    person = root.issue(email("ada@example.org"), key=rsa_key())
    sm_home = home.parent / "sm"
    x509 = signing.x509_repository(
        folder / "x509", sm_home, signing.gpgsm_home(sm_home, person, root)
    )
    keys = (
        allowed_line(ssh_key),
        signing.gpg(home, "--armor", "--export", gpg_key),
        f"x509 ada@example.org\n{root.pem}",
    )
    yield [
        (
            repository,
            repository.object(repository.commit("-S", content="b: 2\n")),
            repository.object(repository.commit("-S", content="c: 3\n")),
            read_signers("k", text),
        )
        for repository, text in zip((ssh, gpg, x509), keys, strict=True)
    ]
    signing.stop_agent(home)
    signing.stop_agent(sm_home)
    shutil.rmtree(home.parent, ignore_errors=True)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_tampered_content_is_refused_as_by_git(signed: list[tuple], data: st.DataObject) -> None:
    repository, first, second, signers = data.draw(st.sampled_from(signed))
    kind = data.draw(st.sampled_from(["flip", "insert", "remove", "swap", "twice", "none"]))
    place = data.draw(st.integers(0, len(first) - 1))
    byte = data.draw(st.integers(0, 255))
    tampered = first
    if kind == "flip":
        tampered = first[:place] + bytes([first[place] ^ (byte or 1)]) + first[place + 1 :]
    elif kind == "insert":
        tampered = first[:place] + bytes([byte]) + first[place:]
    elif kind == "remove":
        tampered = first[:place] + first[place + 1 + byte % 40 :]
    elif kind == "swap":
        tampered = _with_signature_of(first, second)
    elif kind == "twice":
        header = _signature_of(second)
        tampered = first.replace(b"\n\n", b"\n" + header + b"\n\n", 1)
    id = repository.store(tampered)
    ours, theirs = refusal(repository, id, signers) == "", repository.accepts(id)
    if kind == "none":
        assert ours and theirs
    if ours != theirs:
        # One reads odd armor, a second signature or odd fields outside of what is signed, and the
        # other does not; what was signed is the same.
        assert _content_of(tampered) == _content_of(first)


def _signature_of(data: bytes) -> bytes:
    lines = data.partition(b"\n\n")[0].split(b"\n")
    start = next(i for i, line in enumerate(lines) if line.startswith(b"gpgsig "))
    end = next((i for i in range(start + 1, len(lines)) if lines[i][:1] != b" "), len(lines))
    return b"\n".join(lines[start:end])


def _content_of(data: bytes) -> bytes:
    head, blank, message = data.partition(b"\n\n")
    kept, inside = [], False
    for line in head.split(b"\n"):
        inside = line.startswith(b"gpgsig") or (inside and line.startswith(b" "))
        if not inside:
            kept.append(line)
    return b"\n".join(kept) + blank + message


def _with_signature_of(first: bytes, second: bytes) -> bytes:
    return first.replace(_signature_of(first), _signature_of(second))
