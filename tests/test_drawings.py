# SPDX-License-Identifier: BSD-3-Clause
"""The diagrams of the guide are those that docs/drawings.py draws."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

FOLDER = Path(__file__).parent.parent / "docs"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
LARGEST_FILE = 60_000  # bytes
SMALLEST_LETTERS = 11  # pixels


@pytest.fixture(scope="module")
def drawings():
    spec = importlib.util.spec_from_file_location("drawings", FOLDER / "drawings.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for it
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def drawn(drawings):
    return dict(drawings.drawn())


def test_the_files_are_those_that_the_program_draws(drawn):
    """Up to a pixel and a byte: the last digits of a fit depend on the processor."""
    assert len(drawn) == 6
    for path, svg in drawn.items():
        kept = path.read_text(encoding="utf-8")
        assert NUMBER.sub("#", kept) == NUMBER.sub("#", svg), path.name
        kept_numbers = np.array(NUMBER.findall(kept), dtype=float)
        numbers = np.array(NUMBER.findall(svg), dtype=float)
        np.testing.assert_allclose(kept_numbers, numbers, atol=1, err_msg=path.name)


def test_the_files_are_small_and_their_letters_are_not(drawn):
    for path in drawn:
        assert path.stat().st_size < LARGEST_FILE
        texts = ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")
        sizes = [float(text.get("font-size")) for text in texts]
        assert sizes, path.name
        assert min(sizes) >= SMALLEST_LETTERS


def test_the_aggregate_is_good_enough_for_all_and_no_local_model_is(drawings):
    """What the diagram of spaces is there to show."""
    agg = drawings.fit_three_hospitals()
    assert agg.intersection_.found
    assert min(agg.node_scores_["aggregate"]) >= drawings.EPSILON
    for local in agg.spaces_:
        assert not all(space.contains(local.center) for space in agg.spaces_)


def test_an_ellipse_is_the_edge_of_its_space(drawings):
    space = drawings.fit_three_hospitals().spaces_[0]
    ellipse = drawings.ellipse_of(space)
    turn = np.radians(ellipse.degrees)
    axes = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    for axis, half_axis in zip(axes, ellipse.half_axes, strict=True):
        step = half_axis * axis * [1, -1] / drawings.PIXELS_OF_ONE
        model = space.center + np.outer(np.append(step, 0), [1, -1])
        np.testing.assert_allclose(
            drawings.in_plane(model) - ellipse.center, half_axis * axis
        )
        np.testing.assert_allclose(space.normalized_squared_distance(model), 1)


def test_the_parts_of_a_file_are_the_whole_file(drawings, tmp_path):
    summary, (n_rows, _) = drawings.summary_of_biscoe()
    summary.save(tmp_path / "biscoe.safetensors")
    sizes = drawings.bytes_of_parts(summary)
    assert sum(sizes.values()) == (tmp_path / "biscoe.safetensors").stat().st_size
    assert min(sizes.values()) > 0
    assert n_rows == 167
