# SPDX-License-Identifier: BSD-3-Clause
"""Objects that messages tell by name come back from their settings."""

from __future__ import annotations

import pytest

from skgems.spaces import Accuracy, Criterion, Ellipsoid, Geometry, Gram, LogLoss


@pytest.mark.parametrize("part", [Gram(ridge=0.7), Ellipsoid(), LogLoss()])
def test_objects_come_back_from_settings(part):
    base = Geometry if isinstance(part, Geometry) else Criterion
    restored = base.from_settings(part.as_settings())
    assert type(restored) is type(part) and restored is not part
    assert restored.as_settings() == part.as_settings()


@pytest.mark.parametrize("base", [Geometry, Criterion])
def test_names_that_nobody_knows(base):
    with pytest.raises(
        ValueError, match="'Banana' is not known here, only .*'(gram|accuracy)'"
    ):
        base.from_settings({"name": "Banana"})


@pytest.mark.parametrize(
    ("base", "bases"), [(Geometry, (Gram,)), (Criterion, (Accuracy,))]
)
def test_a_class_that_was_defined_anew(base, bases):
    def define():
        return type("Own", bases, {"__module__": "notebook", "__qualname__": "Own"})

    old = define()()
    assert type(base.from_settings(old.as_settings())) is type(old)
    new = define()()
    with pytest.raises(ValueError, match="'own' was defined again"):
        old.as_settings()
    assert type(base.from_settings(new.as_settings())) is type(new)
