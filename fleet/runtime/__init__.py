"""How a process of Towline lives: time, tasks, signals, logs.

No part of the product's meaning belongs here.
"""
