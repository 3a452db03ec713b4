"""The command line: nouns, then verbs, in the words of the API.

It parses, asks the API and prints; whatever decides anything lives behind the API.
"""

from towline.cli.lazy import load


def main() -> None:
    """Run one command."""
    load("towline.cli.program").main()
