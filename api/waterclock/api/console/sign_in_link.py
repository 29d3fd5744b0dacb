"""The link that `waterclock up` prints: asked of the api, as anybody asks for one."""

import http.client
import json
from urllib.parse import urlsplit

from waterclock.core.runtime.data_directory import ConnectionInfo

_TIMEOUT = 10.0


def sign_in_link(connection: ConnectionInfo) -> str | None:
    """None where it could not be had: behind a certificate that this machine does not trust, say."""
    place = urlsplit(connection.http)
    kind = http.client.HTTPConnection if place.scheme == "http" else http.client.HTTPSConnection
    client = kind(place.netloc, timeout=_TIMEOUT)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {connection.token}"}
    try:
        client.request("POST", "/v1/session/links", "{}", headers)
        response = client.getresponse()
        answer = json.loads(response.read())
        return f"{connection.http}{answer['path']}" if response.status == 201 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        client.close()
