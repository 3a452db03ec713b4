"""The program itself: its version, its help and the pages of its console.

No commands about resources: the other packages have those.
"""
