"""Names of container images."""


def split_image(image: str) -> tuple[str, str]:
    """Returns path and tag of an image in lower case, without its digest."""
    plain = image.lower().partition("@")[0]
    head, colon, tag = plain.rpartition(":")
    # A colon before the last slash separates the registry's port.
    return (head, tag) if colon and "/" not in tag else (plain, "")
