"""The verbs of the git cache: follow, fetch, key, render; all decisions, through ports only.

No process, socket or file is touched here directly.
"""
