"""Where finished renders are kept, by digest: memory in front of files.

Nothing here knows git or how a bundle came to be.
"""
