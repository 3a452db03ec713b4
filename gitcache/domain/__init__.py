"""The words of the git cache: refs, URLs, paths, trees, digests of inputs; values in, values out.

No IO library, no process and no clock may be used here.
"""
