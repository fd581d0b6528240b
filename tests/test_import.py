# SPDX-License-Identifier: BSD-3-Clause
"""Importing, reading and answering with a classifier brings no optional dependency."""

from __future__ import annotations

import subprocess
import sys

# scikit-learn comes first: it imports pandas on its own where that is installed.
CODE = """
import sys
import sklearn.linear_model
before = set(sys.modules)
import skgems, skgems.datasets, skgems.channels, skgems.spaces
from skgems.networks import is_fitted, read_network
clf = sklearn.linear_model.LogisticRegression().fit([[0.0], [1.0]], [0, 1])
assert is_fitted(clf)
read_network(clf)
front = skgems.PooledTransformer(skgems.steps.RandomFeatures(random_state=0))
request = skgems.federation.Message.of("front", front=front.as_front().as_content())
skgems.federation.reply_to(
    request, clf, [[0.0], [1.0]], [0, 1], name="lyon", min_rows=1
)
print(*(set(sys.modules) - before))
"""


def test_import_brings_no_optional_dependency():
    run = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True
    )
    imported = set(run.stdout.split())
    assert {"skgems", "skgems.datasets", "skgems.spaces"} <= imported
    optional = {"torch", "skorch", "matplotlib", "flwr", "pandas"}
    optional |= {"skops", "cryptography", "skgems._cli"}
    assert imported & optional == set()


# As where the sources lie on the path, and no package of that name is installed.
NOT_INSTALLED = """
import importlib.metadata as metadata
original = metadata.distribution
def distribution(name):
    if name == "skgems":
        raise metadata.PackageNotFoundError(name)
    return original(name)
metadata.distribution = distribution
import skgems
"""


def test_import_needs_no_installation():
    run = subprocess.run([sys.executable, "-c", NOT_INSTALLED], capture_output=True)
    assert run.returncode == 0, run.stderr.decode()
