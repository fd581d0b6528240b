# SPDX-License-Identifier: BSD-3-Clause
"""Signatures of messages: who signs what, and what is refused without them."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import skgems
from skgems import GEMSLogisticAggregator
from skgems.asking import Message
from skgems.gems import Spaces
from skgems.guard import SignatureError, sign, signing_keys
from skgems.parties import Summary
from skgems.spaces import Sampled

pytest.importorskip("cryptography")


@pytest.fixture
def rows():
    X = np.linspace(-1, 1, 60).reshape(-1, 1)
    return X, np.where(X[:, 0] > 0.1, "ill", "well")


@pytest.fixture
def sent(tmp_path, rows):
    """Paths: of a saved summary, of its node's secret key, and of the public key."""
    agg = GEMSLogisticAggregator(random_state=0, spaces=Spaces(construction=Sampled(8)))
    path = tmp_path / "lyon.safetensors"
    key = tmp_path / "lyon.key"
    agg.summarize(LogisticRegression().fit(*rows), *rows, name="lyon").save(path)
    signing_keys(key)
    return path, key, tmp_path / "lyon.key.pub"


def test_a_signed_summary_is_loaded(sent):
    path, key, public = sent
    before = Summary.load(path).message
    sign(path, key)
    after = Summary.load(path).message
    assert after.digest == before.digest
    assert len(bytes.fromhex(after.envelope["signature"])) == 64
    assert Summary.load(path, public_key=public).name == "lyon"
    assert Summary.load(path).name == "lyon"


def test_a_signature_can_be_required(sent):
    path, _, public = sent
    match = r"lyon\.safetensors: it is not signed"
    with pytest.raises(SignatureError, match=match):
        Summary.load(path, public_key=public)


def test_a_signature_by_another_key_is_refused(sent, tmp_path):
    path, _, public = sent
    signing_keys(tmp_path / "other.key")
    sign(path, tmp_path / "other.key")
    with pytest.raises(
        SignatureError, match=r"lyon\.safetensors: its signature belongs to"
    ):
        Summary.load(path, public_key=public)


def test_a_file_that_was_altered_is_refused(sent):
    path, key, public = sent
    sign(path, key)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        SignatureError, match=r"lyon\.safetensors: its signature belongs to"
    ):
        Summary.load(path, public_key=public)


@pytest.mark.parametrize("first", ["signed", "not signed"])
def test_the_content_that_was_checked_is_loaded_though_the_file_changes(
    sent, rows, first, monkeypatch
):
    path, key, public = sent
    sign(path, key)
    agg = GEMSLogisticAggregator(random_state=0, spaces=Spaces(construction=Sampled(8)))
    clf = LogisticRegression(C=0.01).fit(*rows)
    agg.summarize(clf, *rows, name="lyon").save(path.with_name("other"))
    contents = [path.read_bytes(), path.with_name("other").read_bytes()]
    if first == "not signed":
        contents.reverse()
    path.write_bytes(contents[0])
    real_open = os.open

    def open_and_replace(name, *args, **options):
        """Open a file; behind the summary's reader, put another in its place."""
        descriptor = real_open(name, *args, **options)
        if Path(name) == path and len(contents) > 1:
            # The reader has the file that was there before.
            path.with_name("other").write_bytes(contents.pop())
            os.replace(path.with_name("other"), path)
        return descriptor

    monkeypatch.setattr(os, "open", open_and_replace)
    if first == "signed":
        signed = Summary.load(path, public_key=public)
        assert signed.message.to_bytes() == contents[0]
    else:
        with pytest.raises(SignatureError):
            Summary.load(path, public_key=public)
    assert len(contents) == 1


@pytest.mark.parametrize("change", ["flipped", "cut short", "too long", "no digits"])
def test_a_signature_that_was_altered_is_refused(sent, change):
    path, key, public = sent
    sign(path, key)
    message = Message.from_bytes(path.read_bytes())
    signature = message.envelope["signature"]
    altered = {
        "flipped": ("1" if signature[0] == "0" else "0") + signature[1:],
        "cut short": signature[:-2],
        "too long": signature + "00",
        "no digits": "z" + signature[1:],
    }
    path.write_bytes(message.with_envelope(signature=altered[change]).to_bytes())
    with pytest.raises(SignatureError, match=r"lyon\.safetensors: its signature"):
        Summary.load(path, public_key=public)


@pytest.mark.parametrize("field", ["node", "exchange", "to"])
def test_a_signature_covers_the_envelope(sent, field):
    path, key, public = sent
    message = Message.from_bytes(path.read_bytes()).with_envelope(node="lyon")
    path.write_bytes(message.to_bytes())
    sign(path, key)
    assert Summary.load(path, public_key=public).name == "lyon"
    signed = Message.from_bytes(path.read_bytes())
    path.write_bytes(signed.with_envelope(**{field: "paris"}).to_bytes())
    with pytest.raises(SignatureError, match=r"lyon\.safetensors: its signature"):
        Summary.load(path, public_key=public)


def test_a_key_of_another_kind_is_refused(sent, tmp_path):
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    path, key, _ = sent
    elliptic = ec.generate_private_key(ec.SECP256R1())
    secret = tmp_path / "ec.key"
    public = tmp_path / "ec.pub"
    secret.write_bytes(
        elliptic.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    public.write_bytes(
        elliptic.public_key().public_bytes(
            serialization.Encoding.PEM,
            serialization.PublicFormat.SubjectPublicKeyInfo,
        )
    )
    with pytest.raises(ValueError, match=r"ec\.key: it is no ed25519 key"):
        sign(path, secret)
    sign(path, key)
    with pytest.raises(ValueError, match=r"ec\.pub: it is no ed25519 key"):
        Summary.load(path, public_key=public)


@pytest.mark.parametrize("content", [b"", b"key", bytes(2**17)])
def test_a_file_that_is_no_key_is_refused(sent, tmp_path, content):
    path, key, _ = sent
    sign(path, key)
    (tmp_path / "no.pem").write_bytes(content)
    with pytest.raises(ValueError, match=r"no\.pem: it "):
        Summary.load(path, public_key=tmp_path / "no.pem")
    with pytest.raises(ValueError, match=r"no\.pem: it "):
        sign(path, tmp_path / "no.pem")


def test_a_secret_key_is_no_public_one(sent):
    path, key, public = sent
    sign(path, key)
    with pytest.raises(ValueError, match=r"lyon\.key: it is no public key"):
        Summary.load(path, public_key=key)
    with pytest.raises(ValueError, match=r"lyon\.key\.pub: it is no secret key"):
        sign(path, public)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of posix")
def test_the_secret_key_is_read_by_its_owner_only(sent):
    _, key, public = sent
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert b"PRIVATE" in key.read_bytes()
    assert b"PRIVATE" not in public.read_bytes()


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of posix")
def test_a_signed_summary_is_read_by_its_owner_only_whatever_the_umask(sent):
    path, key, public = sent
    before = os.umask(0)
    try:
        sign(path, key)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(public.stat().st_mode) == 0o644


def test_a_summary_that_cannot_be_saved_leaves_no_file(sent, tmp_path):
    path, _, _ = sent
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OSError):
        Summary.load(path).save(tmp_path / "folder")
    assert sorted(tmp_path.iterdir()) == before


def test_a_key_is_never_replaced(sent):
    _, key, _ = sent
    before = key.read_bytes()
    with pytest.raises(FileExistsError):
        signing_keys(key)
    assert key.read_bytes() == before


NODES = ["lyon", "paris"]


@dataclass(frozen=True, kw_only=True)
class SignedExchange:
    """An exchange of two nodes, the folder of all keys, and the rows of each node."""

    exchange: skgems.Exchange
    keys: Path
    rows: dict[str, tuple[np.ndarray, np.ndarray]]

    def reply(self, request: Path, name: str, *, signed_by: str | None) -> None:
        """Answer a request at a node with somebody's signature, or with none."""
        X, y = self.rows[name]
        clf = LogisticRegression().fit(X, y)
        key = None if signed_by is None else self.keys / signed_by
        skgems.answer(request, clf, X, y, name=name, private_key=key)


@pytest.fixture
def signed_exchange(tmp_path, rows):
    X, y = rows
    for name in [*NODES, "other"]:
        signing_keys(tmp_path / name)
    exchange = skgems.Exchange(
        tmp_path / "exchange",
        GEMSLogisticAggregator(random_state=0, spaces=Spaces(construction=Sampled(8))),
        nodes=NODES,
        public_keys={name: tmp_path / f"{name}.pub" for name in NODES},
    )
    rows_of_nodes = {name: (X[k::2], y[k::2]) for k, name in enumerate(NODES)}
    return SignedExchange(exchange=exchange, keys=tmp_path, rows=rows_of_nodes)


def test_an_exchange_needs_the_keys_of_all_nodes(tmp_path):
    signing_keys(tmp_path / "lyon")
    public_keys = {"lyon": tmp_path / "lyon.pub"}
    with pytest.raises(ValueError, match="public_keys has no key of the nodes"):
        skgems.Exchange(
            tmp_path / "exchange",
            GEMSLogisticAggregator(
                random_state=0, spaces=Spaces(construction=Sampled(8))
            ),
            nodes=NODES,
            public_keys=public_keys,
        )


def test_an_exchange_takes_signed_replies_only(signed_exchange, rows):
    exchange = signed_exchange.exchange
    assert exchange.step() is None
    requests = dict(exchange.waiting_for)
    signed_exchange.reply(requests["lyon"], "lyon", signed_by="lyon")
    signed_exchange.reply(requests["paris"], "paris", signed_by=None)
    with pytest.raises(SignatureError, match=r"paris\.safetensors: it is not signed"):
        exchange.step()
    for signer in ("other", "lyon"):
        signed_exchange.reply(requests["paris"], "paris", signed_by=signer)
        with pytest.raises(SignatureError, match=r"paris\.safetensors: its signature"):
            exchange.step()
    signed_exchange.reply(requests["paris"], "paris", signed_by="paris")
    # What follows is signed rightly, until all is fitted.
    while (fitted := exchange.step()) is None:
        for name, request in dict(exchange.waiting_for).items():
            signed_exchange.reply(request, name, signed_by=name)
    assert fitted.score(*rows) > 0.9
