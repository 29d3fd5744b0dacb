"""An authority made for a test, and the certificates it signs."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec import Struct


class Signed(Struct, frozen=True):
    certificate: Path
    key: Path


class Authority:
    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        certificate = (
            _builder(self._name, self._name, self._key, expired=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = directory / f"{name}.ca.pem"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def signs(self, host: str, *, expired: bool = False) -> Signed:
        """A certificate for a host name or an address."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
        certificate = (
            _builder(name, self._name, key, expired=expired)
            .add_extension(x509.SubjectAlternativeName([_host(host)]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        stem = f"{host}{'.expired' if expired else ''}"
        signed = Signed(self._directory / f"{stem}.pem", self._directory / f"{stem}.key")
        signed.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        signed.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        signed.key.chmod(0o600)
        return signed


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, expired: bool
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    end = now - timedelta(minutes=1) if expired else now + timedelta(hours=1)
    return x509.CertificateBuilder(
        issuer, subject, key.public_key(), x509.random_serial_number(), now - timedelta(hours=1), end
    ).add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
