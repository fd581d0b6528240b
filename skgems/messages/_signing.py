# SPDX-License-Identifier: BSD-3-Clause
"""Detached signatures of files, which say who made them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ._packing import MOST_KEY, read_bytes, write_bytes


class SignatureError(ValueError):
    """A file has no signature, or one of another file or by another key.

    Examples
    --------
    >>> from skgems.federation import SignatureError
    >>> issubclass(SignatureError, ValueError)
    True
    """


def signing_keys(path) -> None:
    """Make a pair of ed25519 keys: the node's secret, and what others know it by.

    Needs the package cryptography, ``pip install skgems[sign]``.

    Parameters
    ----------
    path : str or os.PathLike
        Where the secret key goes, which only its owner may read, in PEM form; the
        public one has ``.pub`` after it.

    Raises
    ------
    FileExistsError
        If there is a key already.
    """
    ed25519, serialization = _cryptography()
    path = Path(path)
    key = ed25519.Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(number, "wb") as file:
        file.write(secret)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    write_bytes(path.with_name(path.name + ".pub"), public)


def sign(path, private_key) -> Path:
    """Sign a file: its ed25519 signature goes beside it.

    Parameters
    ----------
    path : str or os.PathLike
    private_key : str or os.PathLike
        Of the secret key, see :func:`signing_keys`.

    Returns
    -------
    signature : Path
        The name of the file with ``.sig`` after it.
    """
    ed25519, serialization = _cryptography()
    load = partial(serialization.load_pem_private_key, password=None)
    key = _key(private_key, load, ed25519.Ed25519PrivateKey, "secret")
    place = _beside(path)
    write_bytes(place, key.sign(read_bytes(path)))
    return place


def check_signature(path, data: bytes, public_key) -> None:
    """Raise SignatureError unless the one beside ``path`` is of ``data`` by a key."""
    ed25519, serialization = _cryptography()
    from cryptography.exceptions import InvalidSignature

    load = serialization.load_pem_public_key
    key = _key(public_key, load, ed25519.Ed25519PublicKey, "public")
    try:
        signature = read_bytes(_beside(path), most=MOST_KEY)
    except FileNotFoundError as exc:
        raise SignatureError(
            f"{os.fspath(path)}: it is not signed; {_beside(path).name} is missing."
        ) from exc
    try:
        key.verify(signature, data)
    except InvalidSignature as exc:
        raise SignatureError(
            f"{os.fspath(path)}: its signature is of another file, or by another key."
        ) from exc


def _key(path, load: Callable, kind: type, word: str):
    """The key in a file; ValueError if it is none of its kind."""
    data = read_bytes(path, most=MOST_KEY)
    try:
        key = load(data)
    except (ValueError, TypeError) as exc:  # TypeError: it has a password
        raise ValueError(f"{os.fspath(path)}: it is no {word} key.") from exc
    if not isinstance(key, kind):
        raise ValueError(f"{os.fspath(path)}: it is no ed25519 key.")
    return key


def _beside(path) -> Path:
    return Path(path).with_name(Path(path).name + ".sig")


def _cryptography():
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as exc:
        raise ImportError(
            "Signatures need the package cryptography: pip install skgems[sign]."
        ) from exc
    return ed25519, serialization
