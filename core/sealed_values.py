"""Values in manifests that only one installation can open: `v1.<key>.<box>`.

Sealed as in `core.sealing`, to the public key of the installation. The names of project and secret
are authenticated, so a value cannot be opened under another name. `<key>` names the public key.
"""

import base64
import hashlib

from core.errors import Invalid
from core.sealing import SealingKey, seal
from core.spec.sealed_secrets import SealedSecret

_VERSION = "v1"


def seal_value(public: bytes, project: str, name: str, plain: bytes) -> str:
    """Seals the value of a secret. Raises Invalid for a malformed key."""
    box = seal(public, _owner(project), name, "", plain).box
    return f"{_VERSION}.{_key_name(public)}.{base64.urlsafe_b64encode(box).decode()}"


def open_value(key: SealingKey, text: str, project: str, name: str) -> bytes:
    """Opens a sealed value. Raises Invalid for another installation, project or name."""
    version, _, rest = text.partition(".")
    key_name, _, box = rest.partition(".")
    if version != _VERSION or not box:
        raise Invalid("is no sealed value: seal it with `towline secrets seal`")
    if key_name != _key_name(key.public):
        raise Invalid(
            f"was sealed for the key {key_name[:16]}, and this installation has the key "
            f"{_key_name(key.public)}: seal the value again, or restore its encryption.key"
        )
    try:
        sealed = SealedSecret(name, "", base64.b64decode(box, altchars=b"-_", validate=True))
        return key.open(sealed, _owner(project))
    except (Invalid, ValueError):
        # Not chained: the cause is about agents.
        raise Invalid(
            f"was not sealed for the secret {name!r} of the project {project!r}: seal it again "
            f"with `towline secrets seal {name} --project {project}`"
        ) from None


def _owner(project: str) -> str:
    return f"project:{project}"


def _key_name(public: bytes) -> str:
    return hashlib.sha256(public).hexdigest()[:16]
