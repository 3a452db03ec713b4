"""The command line: nouns, then verbs, in the words of the API.

It parses, asks the API and prints; whatever decides anything lives behind the API.
"""

from towline.cli.program import main

__all__ = ["main"]
