"""The command line: `towline NOUN VERB`, in the words of the API.

It parses options, calls the API and prints. All decisions are made behind the API.
"""

from towline.cli.lazy_import import load


def main() -> None:
    """Runs one command."""
    load("towline.cli.program").main()
