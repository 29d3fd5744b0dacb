"""Certificates, and accounts with signed users, made for a test."""

import json
import os
import time
from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

nkeys: Any = import_module("nkeys")  # what nats-py reads credentials files with; it has no types


def self_signed(directory: Path) -> tuple[Path, Path]:
    """Certificate and key for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "waterclock test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = directory / "server.crt", directory / "server.key"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return certificate_file, key_file


def decentralised_auth(directory: Path) -> tuple[str, Path]:
    """Settings of a server that trusts an operator, and the credentials file of a user of one of its accounts."""
    operator, account, user = (
        nkeys.encode_seed(os.urandom(32), prefix)
        for prefix in (nkeys.PREFIX_BYTE_OPERATOR, nkeys.PREFIX_BYTE_ACCOUNT, nkeys.PREFIX_BYTE_USER)
    )
    operator_file = directory / "operator.jwt"
    operator_file.write_text(_signed(operator, operator, "operator"))
    account_key = nkeys.from_seed(account).public_key.decode()
    settings = (
        f'operator: "{operator_file}"\n'
        "resolver: MEMORY\n"
        f"resolver_preload: {{ {account_key}: {_signed(operator, account, 'account')} }}\n"
    )
    credentials = directory / "user.creds"
    credentials.write_text(
        f"-----BEGIN NATS USER JWT-----\n{_signed(account, user, 'user')}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.decode()}\n------END USER NKEY SEED------\n"
    )
    return settings, credentials


def _signed(issuer: bytes, subject: bytes, kind: str) -> str:
    nats: dict[str, object] = {"type": kind, "version": 2}
    if kind == "account":
        nats["limits"] = {"subs": -1, "data": -1, "payload": -1, "conn": -1, "imports": -1, "exports": -1}
    if kind == "user":
        nats |= {"subs": -1, "data": -1, "payload": -1}
    claims: dict[str, object] = {
        "iat": int(time.time()),
        "iss": nkeys.from_seed(issuer).public_key.decode(),
        "name": kind,
        "sub": nkeys.from_seed(subject).public_key.decode(),
        "nats": nats,
    }
    claims["jti"] = sha256(json.dumps(claims).encode()).hexdigest()
    header = {"typ": "JWT", "alg": "ed25519-nkey"}
    body = f"{_encoded(json.dumps(header).encode())}.{_encoded(json.dumps(claims).encode())}"
    return f"{body}.{_encoded(nkeys.from_seed(issuer).sign(body.encode()))}"


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
