"""Required signatures of container images that rendered objects name.

The render tier checks the rules of a project's fence, and the agent those of its own tenants, each
with the evidence of the bundle. A signature is about a digest, so such an image must be pinned by
its digest: what a tag points to can change after the check.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import Invalid
from core.signatures.signer import VerifiedSigner
from core.spec.images import ImageName, read_image
from core.spec.source_signatures import Evidence, SignatureRule, SignerSet, read_signer_sets
from core.wildcards import matches

if TYPE_CHECKING:
    from core.signatures.trusted import TrustedSigners


@dataclass(frozen=True, slots=True)
class ImageSignatureRule:
    """Images that need a signature by one of these sets; without a set they need none.

    `match` is a pattern of repositories with their registry.
    """

    match: str
    signed_by: tuple[SignerSet, ...] = ()

    def __str__(self) -> str:
        names = " or ".join(signers.name for signers in self.signed_by)
        return f"{self.match}, signed by {names}" if names else self.match


@dataclass(frozen=True, slots=True)
class SignatureRules:
    """Rules about sources, and about images. Without rules of a kind, all of it is allowed."""

    sources: tuple[SignatureRule, ...] = ()
    images: tuple[ImageSignatureRule, ...] = ()


NO_SIGNATURE_RULES = SignatureRules()
"""Rules that allow everything."""


def deciding_rules(
    rules: Sequence[ImageSignatureRule], image: ImageName
) -> Sequence[ImageSignatureRule]:
    """Returns the rules that decide about an image: one that needs no signature, or all that cover
    it.

    Raises Invalid for an image that no rule covers.
    """
    covering = [rule for rule in rules if matches(rule.match, image.repository)]
    if not covering:
        raise Invalid(f"no image rule allows {image.repository}")
    return next(([rule] for rule in covering if not rule.signed_by), covering)


def image_signers(rules: Sequence[ImageSignatureRule], image: ImageName) -> "TrustedSigners | None":
    """Returns the signers of whom one must have signed an image; None: none needs to.

    Raises Invalid for an image that no rule covers.
    """
    signers = [each for rule in deciding_rules(rules, image) for each in rule.signed_by]
    return read_signer_sets(signers) if signers else None


def check_images(
    rules: Sequence[ImageSignatureRule], images: Iterable[str], evidence: Evidence
) -> dict[str, VerifiedSigner]:
    """Returns the signers of the images that need a signature.

    Raises Invalid for an image that no rule covers, that is not pinned, or whose signature is
    missing or wrong; the message names the image, and the signers that are expected.
    """
    if not rules:
        return {}
    signers: dict[str, VerifiedSigner] = {}
    for text in dict.fromkeys(images):
        image = read_image(text)
        trusted = image_signers(rules, image)
        if trusted is None:
            continue
        if not image.digest:
            raise unpinned_error(text, trusted)
        try:
            signers[text] = trusted.verify_artifact(image.digest, evidence.artifacts)
        except Invalid as error:
            raise Invalid(f"image {text}: {error.message}") from None
    return signers


def unpinned_error(text: str, trusted: "TrustedSigners", digest: str = "") -> Invalid:
    """Makes the error for an image without a digest; `digest` is that of its tag now."""
    return Invalid(
        f"image {text} needs a signature of {trusted.expected()}, so pin it by digest: "
        f"{text}@{digest or 'sha256:…'}"
    )
