"""What the agent observes of objects: health, pods, and the inventory that it reports.

Pure rules over objects; no watch and no request.
"""
