"""What the bench of the git cache needs: other ways to do the same, and replicas as processes.

Nothing here measures; that is `bench/gitcache.py`'s.
"""
