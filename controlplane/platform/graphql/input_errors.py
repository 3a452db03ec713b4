"""Messages about wrong input, for people and without the input, which may contain secrets.

graphql-core puts the value that it found into its messages.
"""

import re

_TYPE = r"'[\[\]!]*(?P<type>\w+)[\[\]!]*'"
_VARIABLE = re.compile(r"Variable '\$(?P<name>\w+)' has invalid value(?: at (?P<path>[^:]*))?: ")
_MESSAGES = tuple(
    (re.compile(pattern, re.DOTALL), text)
    for pattern, text in (
        (
            rf"Expected value of type {_TYPE} to include required field '(?P<field>\w+)', "
            r"found: .*",
            r"\g<type> needs the field '\g<field>'",
        ),
        (
            rf"Expected value of type {_TYPE} not to include unknown field '(?P<field>[^']*)'"
            r"(?P<similar>\. Did you mean [^?]*\?)?.*",
            r"\g<type> has no field '\g<field>'\g<similar>",
        ),
        (rf"Expected value of type {_TYPE} to be an object, found: .*", r"\g<type> is an object"),
        (rf"Expected value of non-null type {_TYPE} not to be None\.", "must not be null"),
        (rf"Expected a value of non-null type {_TYPE} to be provided\.", "is missing"),
        (
            # A word of letters is a mistyped name of a value, and no password or token.
            r"Value '(?P<value>[A-Za-z_-]{1,32})' does not exist in '(?P<type>\w+)' enum\..*",
            r"'\g<value>' is not a value of \g<type>",
        ),
        (r"Value .* does not exist in '(?P<type>\w+)' enum\..*", r"not a value of \g<type>"),
        (r"(?P<text>Syntax Error: (?:Expected .*?, found|Unexpected) \w*String) .*", r"\g<text>"),
        (r"(?P<text>[^:]* cannot represent [^:]*): .*", r"\g<text>"),
        (r"(?P<text>.*?)[,.;] [Ff]ound: .*", r"\g<text>"),
    )
)


def without_input(message: str) -> str:
    """Returns a message of graphql-core as `NAME.PATH: reason`, without the value it found."""
    path = ""
    if variable := _VARIABLE.match(message):
        path = f"{variable['name']}{variable['path'] or ''}: "
        message = message[variable.end() :]
    for pattern, text in _MESSAGES:
        if match := pattern.match(message):
            return f"{path}{match.expand(text)}{message[match.end() :]}"
    return f"{path}{message}"
