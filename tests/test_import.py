# SPDX-License-Identifier: BSD-3-Clause
"""Importing, reading and answering with a classifier brings no optional dependency."""

from __future__ import annotations

import subprocess
import sys

# As where the sources lie on the path, and no package of that name is installed.
# scikit-learn comes first: it imports pandas on its own where that is installed.
CODE = """
import importlib.metadata as metadata
import sys
import sklearn.linear_model
original = metadata.distribution
def distribution(name):
    if name == "skgems":
        raise metadata.PackageNotFoundError(name)
    return original(name)
metadata.distribution = distribution
before = set(sys.modules)
import skgems, skgems.datasets, skgems.channels, skgems.spaces
from skgems.networks import is_fitted, read_network
clf = sklearn.linear_model.LogisticRegression().fit([[0.0], [1.0]], [0, 1])
assert is_fitted(clf)
read_network(clf)
front = skgems.PooledTransformer(skgems.steps.RandomFeatures(random_state=0))
request = skgems.asking.Message.of("front", front=front.as_front().as_content())
skgems.guard.reply_to(
    request, clf, [[0.0], [1.0]], [0, 1], name="lyon", disclosure=None
)
print(*(set(sys.modules) - before))
"""


def test_import_needs_no_installation_and_brings_no_optional_dependency():
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    imported = set(run.stdout.split())
    assert {"skgems", "skgems.datasets", "skgems.spaces"} <= imported
    optional = {"torch", "skorch", "matplotlib", "flwr", "pandas"}
    optional |= {"skops", "cryptography", "opendp", "skgems._cli"}
    assert imported & optional == set()
