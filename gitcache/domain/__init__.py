"""Values and pure functions of the git cache: refs, URLs, paths, trees, digests of inputs.

No I/O, process or clock here.
"""
