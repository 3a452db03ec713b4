"""Several replicas of the door: which of them holds which agent, and one hop from any to that one.

Nothing here is used by a process that is alone; who asks, and for what, is the gateway's business.
"""
