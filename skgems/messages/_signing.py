"""Signatures of messages, which say who made them."""

import json
import os
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ._limits import MOST_HEADER
from ._message import Message
from ._packing import check_start, read_bytes, write_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

    Key = Ed25519PrivateKey | Ed25519PublicKey

_SIGNATURE = "signature"  # its name on an envelope


class SignatureError(ValueError):
    """A message is not signed, or its signature is of another message or key."""


def signing_keys(path) -> None:
    """Make a pair of ed25519 keys and save them to two files.

    It requires the package cryptography: ``pip install skgems[sign]``.

    Parameters
    ----------
    path : str or os.PathLike
        Path of the file for the private key, in PEM form. Only its owner can read it.
        The public key, which you give to the other parties, is saved beside it with
        ``.pub`` added to the name.

    Raises
    ------
    FileExistsError
        If there is a file at the path already.
    ImportError
        If cryptography is not installed.

    See Also
    --------
    sign : Signs a file with the private key.
    """
    ed25519, serialization = _cryptography()
    path = Path(path)
    key = ed25519.Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secret)
    write_bytes(path.with_name(path.name + ".pub"), public_key_of(path), mode=0o644)


def sign(path, private_key) -> None:
    """Sign the file of a summary, a request or a reply.

    The signature becomes part of the file.

    Parameters
    ----------
    path : str or os.PathLike
        Path of the file. It is replaced in one step.
    private_key : str or os.PathLike
        Path of the private key, made by :func:`signing_keys`.

    Raises
    ------
    ValueError
        If the file is not a message, or the key is not a private ed25519 key.
    ImportError
        If cryptography is not installed.
    """
    message = Message.from_bytes(read_bytes(path, look=check_start))
    write_bytes(path, signed(message, private_key).to_bytes())


def signed(message: Message, private_key) -> Message:
    """Return the message signed by a private key, a file or PEM bytes."""
    signature = _key(private_key, "secret").sign(_covered(message))
    return message.with_envelope(signature=signature.hex())


def check_signed(message: Message, public_key) -> None:
    """Raise SignatureError unless a key, a file or PEM bytes, signed a message."""
    key = _key(public_key, "public")
    from cryptography.exceptions import InvalidSignature

    if _SIGNATURE not in message.envelope:
        raise SignatureError("it is not signed.")
    try:
        key.verify(bytes.fromhex(message.envelope[_SIGNATURE]), _covered(message))
    except (InvalidSignature, ValueError):
        raise SignatureError(
            "its signature belongs to another message or to another key."
        ) from None


def public_key_of(path) -> bytes:
    """Return the public key, in PEM form, that belongs to a private key."""
    _, serialization = _cryptography()
    key = _key(path, "secret").public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.PEM, form)


def _covered(message: Message) -> bytes:
    """Return the bytes that a signature covers: content and envelope."""
    envelope = {k: v for k, v in message.envelope.items() if k != _SIGNATURE}
    return json.dumps([message.digest, envelope], sort_keys=True).encode()


def _key(source: bytes | str | os.PathLike, word: str) -> "Key":
    """The "secret" or "public" key in a file, or in bytes; ValueError if it is none."""
    ed25519, serialization = _cryptography()
    if isinstance(source, bytes):
        pem = source
        key_name = "a key"
    else:
        pem = read_bytes(source, most=MOST_HEADER)
        key_name = os.fspath(source)
    try:
        if word == "secret":
            key = serialization.load_pem_private_key(pem, password=None)
        else:
            key = serialization.load_pem_public_key(pem)
    except (ValueError, TypeError):  # TypeError: it has a password
        raise ValueError(f"{key_name}: it is no {word} key.") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey | ed25519.Ed25519PublicKey):
        raise ValueError(f"{key_name}: it is no ed25519 key.")
    return key


def _cryptography() -> tuple[ModuleType, ModuleType]:
    """Modules of the package cryptography; an ImportError says what to install."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as exc:
        raise ImportError(
            "Signatures need the package cryptography: pip install skgems[sign]."
        ) from exc
    return ed25519, serialization
