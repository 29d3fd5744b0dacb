"""TLS as the settings say: at least 1.2, the peer's certificate and name always checked."""

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from waterclock.core.runtime.settings import Settings, SettingsError

if TYPE_CHECKING:
    from ssl import SSLContext


def nats_context(settings: Settings) -> "SSLContext | None":
    """For connections to NATS; None where the settings ask for none.

    Given one, the connection is encrypted or refused: there is no falling back to plain text.
    """
    named = settings.nats_ca or settings.nats_cert or (settings.nats_url or "").startswith("tls://")
    if settings.nats_tls == "off" or not (settings.nats_tls == "on" or named):
        return None
    import ssl  # takes longer to import than a command line has, when it needs none

    try:
        context = ssl.create_default_context(cafile=settings.nats_ca)
    except OSError as error:
        found = f"{settings.nats_ca}: {error}"
        raise SettingsError("nats_ca", "a file of certificates in PEM", found, "TLS") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.nats_cert is not None:
        _load(context, "nats_cert", settings.nats_cert, settings.nats_key)
    return context


def with_database_tls(settings: Settings) -> Settings:
    """The settings with their TLS in the database URL, from where every Postgres client takes it."""
    named = settings.database_ca or settings.database_cert
    wanted = settings.database_tls == "on" or (settings.database_tls == "auto" and named)
    if settings.database_url is None or not wanted:
        return settings
    query = {"sslmode": "verify-full", "sslrootcert": str(settings.database_ca or _system_authorities())}
    if settings.database_cert is not None:
        query["sslcert"] = str(settings.database_cert)
    if settings.database_key is not None:
        query["sslkey"] = str(settings.database_key)
    for setting in ("database_ca", "database_cert", "database_key"):
        file: Path | None = getattr(settings, setting)
        if file is not None and not file.is_file():
            raise SettingsError(setting, "a file in PEM that is there", file, "TLS")
    url = urlsplit(settings.database_url)
    parameters = {"ssl_min_protocol_version": "TLSv1.2", **dict(parse_qsl(url.query)), **query}
    secured = url._replace(query=urlencode(parameters, safe="/:")).geturl()
    return msgspec.structs.replace(settings, database_url=secured)


def server_context(settings: Settings) -> "SSLContext | None":
    """For the REST interface; None where it speaks plain HTTP."""
    if settings.http_cert is None:
        return None
    import ssl

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, "http_cert", settings.http_cert, settings.http_key)
    return context


def _system_authorities() -> str:
    import ssl

    paths = ssl.get_default_verify_paths()
    if paths.cafile is None:
        raise SettingsError(
            "database_ca", "a file of certificates, as this system has none", "nothing", "TLS"
        )
    return paths.cafile


def _load(context: "SSLContext", setting: str, certificate: Path, key: Path | None) -> None:
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        expected = "a certificate in PEM, and its key there or in a file of its own"
        raise SettingsError(setting, expected, f"{certificate}: {error}", "TLS") from None
