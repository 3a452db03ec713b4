"""Generated values of secrets: random texts that nobody has to choose or see."""

import secrets
import string
from dataclasses import dataclass
from enum import StrEnum

from controlplane.platform.limits import check_range

MIN_LENGTH, MAX_LENGTH = 16, 1024


class ValueAlphabet(StrEnum):
    """Characters of a generated value."""

    ALPHANUMERIC = "alphanumeric"
    """Letters and digits."""
    PRINTABLE = "printable"
    """Letters, digits and punctuation that needs no quotes in most files."""
    HEX = "hex"
    """Hexadecimal digits."""
    DIGITS = "digits"
    """Decimal digits."""

    @property
    def characters(self) -> str:
        """Returns all characters of the alphabet."""
        return _CHARACTERS[self]


_CHARACTERS = {
    ValueAlphabet.ALPHANUMERIC: string.ascii_letters + string.digits,
    ValueAlphabet.PRINTABLE: string.ascii_letters + string.digits + "!#%*+,-./:;=?@^_~",
    ValueAlphabet.HEX: "0123456789abcdef",
    ValueAlphabet.DIGITS: string.digits,
}


@dataclass(frozen=True, slots=True)
class ValueGenerator:
    """Form of a generated value. A different form generates a new value."""

    length: int = 32
    """Number of characters. Default: 32. Limits: 16 to 1,024."""
    alphabet: ValueAlphabet = ValueAlphabet.ALPHANUMERIC
    """Characters of the value. Default: `ALPHANUMERIC`."""

    def checked(self) -> "ValueGenerator":
        """Returns itself. Raises Invalid for a length outside of the limits."""
        check_range(self.length, "generate.length", MIN_LENGTH, MAX_LENGTH)
        return self

    def value(self) -> bytes:
        """Returns a new value from the random source of the operating system."""
        characters = self.alphabet.characters
        return "".join(secrets.choice(characters) for _ in range(self.length)).encode()
