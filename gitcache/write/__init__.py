"""Changes that go back to git: commits and branches from edits, requests to merge them.

What may not live here: when and why something is to be changed; that is the control plane's.
"""
