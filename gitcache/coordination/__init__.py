"""Who owns which repository, and the news between replicas: in this process, or through Redis.

Nothing here knows git, and no request waits for it.
"""
