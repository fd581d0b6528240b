# SPDX-License-Identifier: BSD-3-Clause
"""Signatures of messages: who signs what, and what is refused without them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import skgems
from skgems import GEMSLogisticAggregator
from skgems.federation import (
    Message,
    SignatureError,
    Summary,
    sign,
    signing_keys,
)
from skgems.spaces import Sampled

pytest.importorskip("cryptography")


@pytest.fixture
def rows():
    X = np.linspace(-1, 1, 60).reshape(-1, 1)
    return X, np.where(X[:, 0] > 0.1, "ill", "well")


@pytest.fixture
def sent(tmp_path, rows):
    """A summary that is saved, and the keys of its node."""
    agg = GEMSLogisticAggregator(random_state=0, construction=Sampled(8))
    path, key = tmp_path / "lyon.safetensors", tmp_path / "lyon.key"
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
    with pytest.raises(SignatureError, match=r"lyon\.safetensors: its signature is of"):
        Summary.load(path, public_key=public)


def test_a_file_that_was_altered_is_refused(sent):
    path, key, public = sent
    sign(path, key)
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)
    with pytest.raises(SignatureError, match=r"lyon\.safetensors: its signature is of"):
        Summary.load(path, public_key=public)


@pytest.mark.parametrize("first", ["signed", "not signed"])
def test_what_is_used_is_what_was_signed_though_the_file_changes(
    sent, rows, first, monkeypatch
):
    path, key, public = sent
    sign(path, key)
    agg = GEMSLogisticAggregator(random_state=0, construction=Sampled(8))
    clf = LogisticRegression(C=0.01).fit(*rows)
    agg.summarize(clf, *rows, name="lyon").save(path.with_name("other"))
    contents = [path.read_bytes(), path.with_name("other").read_bytes()]
    if first == "not signed":
        contents.reverse()
    path.write_bytes(contents[0])
    opened = os.open

    def changing(name, *args, **more):
        number = opened(name, *args, **more)
        if Path(name) == path and len(contents) > 1:
            # A new file in its place: this reader has the one before.
            path.with_name("other").write_bytes(contents.pop())
            os.replace(path.with_name("other"), path)
        return number

    monkeypatch.setattr(os, "open", changing)
    if first == "signed":
        signed = Summary.load(path, public_key=public)
        assert signed.message.to_bytes() == contents[0]
    else:
        with pytest.raises(SignatureError):
            Summary.load(path, public_key=public)
    assert len(contents) == 1


@pytest.mark.parametrize("how", ["flipped", "cut short", "too long", "no digits"])
def test_a_signature_that_was_altered_is_refused(sent, how):
    path, key, public = sent
    sign(path, key)
    message = Message.from_bytes(path.read_bytes())
    whole = message.envelope["signature"]
    changed = {
        "flipped": ("1" if whole[0] == "0" else "0") + whole[1:],
        "cut short": whole[:-2],
        "too long": whole + "00",
        "no digits": "z" + whole[1:],
    }
    path.write_bytes(message.with_envelope(signature=changed[how]).to_bytes())
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
    other = ec.generate_private_key(ec.SECP256R1())
    secret, public = tmp_path / "ec.key", tmp_path / "ec.pub"
    secret.write_bytes(
        other.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    public.write_bytes(
        other.public_key().public_bytes(
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
def test_what_is_no_key_is_refused(sent, tmp_path, content):
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
def test_what_is_sent_is_read_by_its_owner_only_whatever_the_umask(sent):
    path, key, public = sent
    before = os.umask(0)
    try:
        sign(path, key)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(public.stat().st_mode) == 0o644


def test_what_cannot_be_written_leaves_nothing(sent, tmp_path):
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


def test_an_exchange_takes_signed_replies_only(tmp_path, rows):
    X, y = rows
    names = ["lyon", "paris"]
    own = {name: (X[k::2], y[k::2]) for k, name in enumerate(names)}
    for name in [*names, "other"]:
        signing_keys(tmp_path / name)
    public = {name: tmp_path / f"{name}.pub" for name in names}
    agg = GEMSLogisticAggregator(random_state=0, construction=Sampled(8))
    folder = tmp_path / "exchange"
    with pytest.raises(ValueError, match="public_keys has none of the nodes"):
        skgems.Exchange(
            tmp_path / "x", agg, nodes=names, public_keys={"lyon": public["lyon"]}
        )
    exchange = skgems.Exchange(folder, agg, nodes=names, public_keys=public)
    assert exchange.step() is None
    asked = dict(exchange.waiting_for)

    def reply(name, key):
        clf = LogisticRegression().fit(*own[name])
        key = None if key is None else tmp_path / key
        return skgems.answer(asked[name], clf, *own[name], name=name, private_key=key)

    reply("lyon", "lyon")
    reply("paris", None)
    with pytest.raises(SignatureError, match=r"paris\.safetensors: it is not signed"):
        exchange.step()
    for key in ("other", "lyon"):
        reply("paris", key)
        with pytest.raises(SignatureError, match=r"paris\.safetensors: its signature"):
            exchange.step()
    reply("paris", "paris")
    while (fitted := exchange.step()) is None:
        asked = dict(exchange.waiting_for)
        for name in asked:
            reply(name, name)
    assert fitted.score(X, y) > 0.9
