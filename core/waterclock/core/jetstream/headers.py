"""NATS header blocks."""


def parse_headers(block: bytes) -> dict[str, str]:
    """`NATS/1.0 <status> <description>` and `Name: value` lines; an inline status becomes `Status`."""
    if not block:
        return {}
    first, *lines = block.decode(errors="replace").split("\r\n")
    headers = {}
    status, _, description = first[9:].partition(" ")
    if status:
        headers["Status"] = status
        headers["Description"] = description
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip()] = value.strip()
    return headers
