"""Values in manifests that only one installation can open: `v1.<key>.<box>`.

Sealed as in `core.sealing`, to the public key of the installation. The place of the value is
authenticated, so a value cannot be opened in another place. `<key>` names the public key.
"""

import base64
import hashlib

from core.errors import Invalid
from core.sealed_places import SealedPlace
from core.sealing import SealingKey, seal
from core.spec.sealed_secrets import SealedSecret

_VERSION = "v1"


def seal_value(public: bytes, project: str, name: str, plain: bytes) -> str:
    """Seals the value of a secret. Raises Invalid for a malformed key."""
    return _seal(public, project, name, plain)


def open_value(key: SealingKey, text: str, project: str, name: str) -> bytes:
    """Opens a sealed value. Raises Invalid for another installation, project or name."""
    plain = _open(key, text, project, name)
    if plain is None:
        raise Invalid(
            f"was not sealed for the secret {name!r} of the project {project!r}: seal it again "
            f"with `towline secrets seal {name} --project {project}`"
        )
    return plain


def seal_field(public: bytes, place: SealedPlace, plain: str) -> str:
    """Seals the text of a secret field. Raises Invalid for a malformed key."""
    return _seal(public, place.project, place.text, plain.encode())


def open_field(key: SealingKey, text: str, place: SealedPlace) -> str:
    """Opens the text of a secret field. Raises Invalid for another installation or place."""
    plain = _open(key, text, place.project, place.text)
    if plain is None:
        raise Invalid(_wrong_place_error(place))
    return plain.decode()


def _wrong_place_error(place: SealedPlace) -> str:
    project = f"the project {place.project!r}" if place.project else "the installation"
    receivers = "".join(f", {name} {value!r}" for name, value in sorted(place.destination.items()))
    return (
        f"was not sealed for this field of {place.kind} {place.name!r} of {project}{receivers}: "
        "seal the plain value again with `towline secrets seal-manifests`"
    )


def _seal(public: bytes, project: str, name: str, plain: bytes) -> str:
    box = seal(public, _owner(project), name, "", plain).box
    return f"{_VERSION}.{_key_name(public)}.{base64.urlsafe_b64encode(box).decode()}"


def _open(key: SealingKey, text: str, project: str, name: str) -> bytes | None:
    """Returns the value; None if it was sealed for another place."""
    version, _, key_and_box = text.partition(".")
    key_name, _, box = key_and_box.partition(".")
    if version != _VERSION or not box:
        raise Invalid("is no sealed value: seal it with `towline secrets seal`")
    if key_name != _key_name(key.public):
        raise Invalid(
            f"was sealed for the key {key_name[:16]}, and this installation has the key "
            f"{_key_name(key.public)}: seal the value again, or restore its encryption.key"
        )
    try:
        secret = SealedSecret(name, "", base64.b64decode(box, altchars=b"-_", validate=True))
        return key.open(secret, _owner(project))
    except (Invalid, ValueError):
        # The cause is about agents.
        return None


def _owner(project: str) -> str:
    return f"project:{project}"


def _key_name(public: bytes) -> str:
    return hashlib.sha256(public).hexdigest()[:16]
