"""What the demo and the tests need around the product: local clusters, a git server, the story.

Nothing that a production process imports may live here.
"""
