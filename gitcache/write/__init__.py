"""Writes to git: commits and branches from edits, and merge requests.

No decisions here: the control plane decides when and why to write.
"""
