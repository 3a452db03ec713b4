"""From a commit to desired state: detects changed services, renders them and stores revisions.

No pipelines: they use delivery, not the other way round.
"""
