"""The signing key of a render tier, and the acts and sources that it signs."""

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.errors import Conflict, Invalid
from core.runtime.atomic_files import write_atomically
from core.runtime.clock import Clock
from core.spec.bundle import Attestation
from core.spec.statements.attestation import (
    AttestationStatement,
    SignedSource,
    Signer,
    TrustedKeys,
    decode_statement,
)
from core.spec.statements.orders import ALL_POWERS, OrderRequest, OrderSigner, Power
from core.spec.statements.signing_keys import (
    SigningIdentity,
    dump_rotations,
    former_keys,
    load_rotations,
    rotate,
)

_PEM = b"-----BEGIN"
_RAW_BYTES = 32
_ROTATIONS = ".rotations"
_REF = "?ref="


@dataclass(frozen=True, slots=True)
class SigningSources:
    """Sources that the render tier signs, as `URL?ref=REF#FOLDER`, with `*` for any text in the URL
    and the ref. Without a ref, any commit that the server sends. Empty: all.
    """

    patterns: tuple[str, ...] = ()

    @property
    def has_refs(self) -> bool:
        """Reports whether an entry names branches or tags."""
        return any(_REF in pattern for pattern in self.patterns)

    def required_refs(self, url: str, path: str) -> tuple[str, ...]:
        """Returns the refs to which commits of a source must belong; empty: no ref is required."""
        source = SignedSource(url, path, "", "")
        refs = [_ref_of_pattern(pattern) for pattern in self.patterns if _covers(pattern, source)]
        return tuple(sorted(set(refs))) if all(refs) else ()

    def check(self, statement: AttestationStatement) -> None:
        """Raises Invalid for a bundle with a source that is not listed, or without a source."""
        if not self.patterns:
            return
        if not statement.sources:
            raise Invalid("the render tier signs only bundles of listed sources; this has none")
        for source in statement.sources:
            if not any(_covers(pattern, source) for pattern in self.patterns):
                raise Invalid(
                    f"the render tier does not sign {source.url}, folder {source.path or '/'}: its "
                    "own settings (git.signing.sources) do not list it"
                )


class RenderSigner:
    """Signs renders and orders with the key of the installation."""

    def __init__(
        self,
        signer: Signer,
        clock: Clock,
        *,
        rotations: tuple[Attestation, ...] = (),
        sources: SigningSources = SigningSources(),
        powers: Collection[Power] = ALL_POWERS,
    ) -> None:
        self._signer = signer
        self._clock = clock
        self._sources = sources
        self._orders = OrderSigner(signer, powers)
        self._former = TrustedKeys(former_keys(rotations))
        self.identity = SigningIdentity(signer.public_raw, rotations)

    def sign(self, statement: AttestationStatement) -> Attestation:
        """Signs the statement about a bundle. Raises Invalid for a source that is not listed."""
        self._sources.check(statement)
        return self._signer.sign(statement)

    def renew(self, attestation: Attestation) -> Attestation:
        """Signs a statement of a former key of this tier again; returns others unchanged."""
        if attestation.key_id not in self._former.key_ids:
            return attestation
        digest = decode_statement(attestation.statement).digest
        return self.sign(self._former.verify(digest, attestation))

    def sign_orders(self, requests: Collection[OrderRequest]) -> list[Attestation]:
        """Signs orders, with the powers of this tier. Raises Invalid for too many."""
        return self._orders.sign(requests, self._clock.now())


@dataclass(frozen=True, slots=True)
class SigningKeyFile:
    """A private key, as PEM (PKCS #8) or 32 raw bytes, beside the rotations that led to it."""

    path: Path

    @property
    def rotations_path(self) -> Path:
        return self.path.with_name(self.path.name + _ROTATIONS)

    def load(self) -> Signer:
        """Reads the key. Raises Invalid for a missing or malformed one."""
        try:
            return _parse_key(self.path.read_bytes())
        except OSError as error:
            raise Invalid(f"the signing key {self.path} cannot be read: {error.strerror}") from None

    def load_or_create(self) -> Signer:
        """Reads the key, or generates it at the first start."""
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, secrets.token_bytes(_RAW_BYTES))
        return self.load()

    def rotations(self) -> tuple[Attestation, ...]:
        """Reads the rotations; none without a file."""
        if not self.rotations_path.exists():
            return ()
        return load_rotations(self.rotations_path.read_bytes())

    def rotate(self) -> tuple[Signer, Signer]:
        """Replaces the key by a new one that the old one signs; returns both, the old one first.

        Raises Conflict if the last rotation did not end: the chain has a key that the file lacks.
        """
        old, private = self.load(), secrets.token_bytes(_RAW_BYTES)
        new, chain = Signer.from_bytes(private), self.rotations()
        if any(rotation.key_id == old.key_id for rotation in chain):
            raise Conflict(
                f"{self.rotations_path} already replaces the key {old.key_id}; restore the key "
                "that follows it, or remove its last line"
            )
        write_atomically(self.rotations_path, dump_rotations((*chain, rotate(old, new))))
        write_atomically(self.path, private)
        return old, new


def _parse_key(data: bytes) -> Signer:
    if not data.lstrip().startswith(_PEM):
        return Signer.from_bytes(data)
    try:
        key = serialization.load_pem_private_key(data, None)
    except (ValueError, TypeError) as error:
        raise Invalid("the signing key is not a private key in PEM without a password") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise Invalid("the signing key is not Ed25519")
    return Signer(key)


def _ref_of_pattern(pattern: str) -> str:
    return pattern.partition("#")[0].partition(_REF)[2]


def _covers(pattern: str, source: SignedSource) -> bool:
    address, _, folder = pattern.partition("#")
    url = address.partition(_REF)[0]
    path = PurePosixPath(source.path)
    return (
        fnmatchcase(_normal_url(source.url), _normal_url(url))
        and path.is_relative_to(folder.strip("/"))
        and ".." not in path.parts
    )


def _normal_url(url: str) -> str:
    return url.rstrip("/").removesuffix(".git")
