"""Completion of commands, options and names in shells.

No commands: `towline/cli` defines them, and `tree.py` reads them from there.
"""
