"""Client of image registries: the OCI distribution API, and its authentication.

Does not select tags, schedule polls, or act on results.
"""
