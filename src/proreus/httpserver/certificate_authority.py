"""A certificate authority of a door's own, kept in a folder, and the certificate that it signs for the door.

The authority stays the same for ten years, over every start: clients are told of it once. The door's own
certificate is made anew when it comes to an end, or when the door is to be known by other names.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import stat
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from proreus.httpserver.host_names import bare
from proreus.model.errors import InputError, UsageError, WorkError
from proreus.model.files import read_regular

_AUTHORITY_FOR = timedelta(days=3650)
_DOOR_FOR = timedelta(days=365)
_LEFT = 3
"""What has less than this part of its time left is made anew."""
_EARLIER = timedelta(days=1)
"""The clocks of two machines differ."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True)
class Authority:
    """Where it is kept, and the names and addresses that its door is asked by."""

    folder: Path
    names: tuple[str, ...]

    @property
    def certificate(self) -> Path:
        """What clients are told to trust (PEM)."""
        return self.folder / "ca.crt"

    def credentials(self, now: datetime | None = None) -> tuple[Path, Path]:
        """Certificate and key of the door, in one file, good for a while yet: made where they are not."""
        moment = now or datetime.now(UTC)
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            key = self._key()
            authority = self._authority(key, moment)
            door = self.folder / "server.pem"
            if not self._is_good(door, authority, moment):
                _write(door, self._door(authority, key, moment))
        except OSError as error:
            raise WorkError(f"{self.folder}: certificates cannot be kept here: {error.strerror}") from error
        return door, door

    def _key(self) -> ec.EllipticCurvePrivateKey:
        """Of the authority; where there is one, it is kept."""
        path = self.folder / "ca.key"
        if not path.exists():
            _write(path, _pem(ec.generate_private_key(ec.SECP256R1())))
        if path.stat().st_mode & _OTHERS:
            raise InputError(
                "other users of this machine may read the key of the cluster's authority; remove it, and "
                "another is made",
                file=path,
            )
        try:
            key = serialization.load_pem_private_key(read_regular(path), None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise InputError("it is damaged; remove it, and another authority is made", file=path)
        return key

    def _authority(self, key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
        certificate = _read(self.certificate)
        if (
            certificate is not None
            and _lasts(certificate, now)
            and certificate.public_key() == key.public_key()
        ):
            return certificate
        # The same key and name: whoever trusts the last one trusts what this one signs, until that one ends.
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "proreus")])
        made = (
            _begun(name, name, key.public_key(), now, now + _AUTHORITY_FOR)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        _write(self.certificate, made.public_bytes(serialization.Encoding.PEM))
        return made

    def _door(self, authority: x509.Certificate, key: ec.EllipticCurvePrivateKey, now: datetime) -> bytes:
        own = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "proreus API")])
        until = min(now + _DOOR_FOR, authority.not_valid_after_utc)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
        made = (
            _begun(name, authority.subject, own.public_key(), now, until)
            .add_extension(x509.SubjectAlternativeName(self._alternatives()), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(signer, critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(own.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return made.public_bytes(serialization.Encoding.PEM) + _pem(own)

    def _alternatives(self) -> list[x509.GeneralName]:
        return [_alternative(name) for name in dict.fromkeys(bare(name).lower() for name in self.names)]

    def _is_good(self, path: Path, authority: x509.Certificate, now: datetime) -> bool:
        certificate = _read(path)
        if certificate is None or not _lasts(certificate, now) or path.stat().st_mode & _OTHERS:
            return False
        try:
            certificate.verify_directly_issued_by(authority)
            key = serialization.load_pem_private_key(read_regular(path), None)
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
            return False
        return key.public_key() == certificate.public_key() and list(names) == self._alternatives()


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(until)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name.encode("idna").decode())
    except (UnicodeError, ValueError):
        raise UsageError(f"{name[:80]!r} is no name of a host: a certificate cannot have it") from None


def _lasts(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether it holds now, and for a good part of its time yet."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return begin <= now and end - now > (end - begin) / _LEFT


def _read(path: Path) -> x509.Certificate | None:
    """None where there is none, or a damaged one."""
    try:
        return x509.load_pem_x509_certificate(read_regular(path))
    except (FileNotFoundError, ValueError):
        return None


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all, and at no moment for others to read."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
