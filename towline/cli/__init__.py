"""The command line: `towline NOUN VERB`, in the words of the API.

It parses options, calls the API and prints. All decisions are made behind the API.
"""

import sys

from towline.cli.lazy_import import load


def main() -> None:
    """Runs one command, or completes one for a shell, which needs no command's module."""
    if sys.argv[1:2] == ["__complete"]:
        return load("towline.completion.candidates").main(sys.argv[2:])
    load("towline.cli.program").main()
