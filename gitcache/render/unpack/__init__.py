"""Turns the layers of an OCI artifact into the objects of one Git commit; runs in workers.

No requests and no clones here: the layers come with the job, and the commit leaves as a pack.
"""
