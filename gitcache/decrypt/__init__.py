"""Files that lie encrypted in git: the SOPS format, and which keys are for which repository.

No git, no network and no renderer; keys never leave this room.
"""
