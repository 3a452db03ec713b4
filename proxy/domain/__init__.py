"""Values of the door: who asks, for what, with which verdict, and what came of it.

No IO, no HTTP bytes and no tunnel frames belong here.
"""
