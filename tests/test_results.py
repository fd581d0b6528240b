# SPDX-License-Identifier: BSD-3-Clause
"""The papers' tables: their programs run, and the page says what they wrote."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
PAPERS = ROOT / "benchmarks" / "papers"
NAMES = sorted(path.stem for path in PAPERS.glob("[a-z]*_*.py"))
# Programs that are run by default; the others are made of the same parts.
FAST = ("gems2019_figure6", "pfnm_stream")
EVERY_PROGRAM = [
    pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in NAMES
]
# Options that make each as small as it goes, beside --quick.
SMALLEST = {
    "gems2019_table5": ["--nodes", "2"],
    "gems2019_table6": ["--nodes", "2", "--rounds"],
    "gems2019_table9": ["--sizes"],
    "gems2019_figures3_4": ["--kinds", "softmax", "--rows", "20"],
    "gems2019_figure6": ["--geometries", "ball"],
    "gems2018_permuted": ["--hidden", "1"],
    "gems2018_mixing": ["--mixing", "0.5"],
    "pfnm_nodes": ["--nodes", "2", "--student", "5"],
    "pfnm_depth": ["--depths", "1", "--student", "5"],
    "pfnm_sensitivity": ["--nodes", "2", "--sigma", "1"],
    "pfnm_stream": ["--steps", "2", "--student", "5"],
    "colearning_ablation": ["--local-epochs", "1", "--units", "5"],
}


def loaded(path):
    """A program as a module; it may import those of the papers."""
    if str(PAPERS) not in sys.path:
        sys.path.insert(0, str(PAPERS))
    spec = importlib.util.spec_from_file_location(f"results_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A file of ten classes of blobs, with as many features as images of MNIST."""
    rng = np.random.default_rng(0)
    means = rng.integers(0, 200, (10, 784))

    def draw(n_rows):
        y = np.resize(np.arange(10), n_rows)
        X = means[y] + rng.integers(0, 56, (n_rows, 784))
        return X.astype(np.uint8), y

    X_train, y_train = draw(960)
    X_test, y_test = draw(100)
    path = tmp_path_factory.mktemp("results") / "blobs.npz"
    np.savez_compressed(
        path, X_train=X_train, y_train=y_train, X_test=X_test, y_test=y_test
    )
    return path


def test_the_page_is_what_the_tables_say():
    results = loaded(ROOT / "docs" / "results.py")
    assert results.PAGE.read_text(encoding="utf-8") == results.page()


def test_claims_of_the_papers_have_a_verdict_from_figures():
    results = loaded(ROOT / "docs" / "results.py")
    claims = results.paper_claims
    rows = claims.rows()
    assert len(rows) >= 10
    assert not [row for row in rows if row[2] == "not measured"]
    figure = claims.Figure
    table = "gems2019_table6"
    tuned = figure(table, "K=5", "GEMS as in the paper, tuned")
    averaged = figure(table, "K=5", "averaged")
    better = claims.Comparison(tuned, averaged)
    assert claims.holds(better) is True
    assert claims.holds(claims.Comparison(averaged, tuned)) is False
    assert claims.holds(better._replace(are_comparable=True)) is False
    assert claims.holds(claims.Comparison(tuned, figure(table, "K=9", "none"))) is None
    claim = claims.Claim(
        source="",
        text="",
        comparisons=lambda: iter([better, better, claims.Comparison(averaged, tuned)]),
    )
    assert claims.verdict(claim) == "holds mostly: 2 of 3"


def test_all_programs_are_run_by_the_one_command():
    assert sorted(loaded(PAPERS / "run.py").NAMES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_program_parses_its_arguments(name, capsys):
    program = loaded(PAPERS / f"{name}.py").PROGRAM
    assert program.name == name
    options = program.parse(["--quick", "--data", "mnist.npz", "--out", "somewhere"])
    assert (options.quick, options.trials, options.data) == (True, 1, "mnist.npz")
    assert options.out == Path("somewhere")
    assert program.parse([]).trials == program.trials
    with_trials = ["--quick", "--data", "mnist.npz", "--trials", "4"]
    assert program.parse(with_trials).trials == 4
    with pytest.raises(SystemExit):
        program.parse(["--help"])
    assert program.title in " ".join(capsys.readouterr().out.split())


@pytest.fixture(scope="module")
def common():
    """The module that all programs share."""
    return loaded(PAPERS / "_common.py")


def test_every_table_says_what_made_it(common):
    for path in sorted(common.RESULTS.glob("*.csv")):
        origin = common.read_origin(path)
        assert re.match("[0-9a-f]{8}", origin.commit), path.name
        assert "with changes" not in origin.commit, path.name
        n_trials = max(line.trials for line in common.read(path))
        assert f"--trials {n_trials}" in origin.settings, path.name


def test_what_is_said_of_older_tables_is_of_older_tables(common):
    """A table that is made anew loses its sentence."""
    results = loaded(ROOT / "docs" / "results.py")
    for name in results.OLDER_METHODS:
        commit = common.read_origin(common.RESULTS / f"{name}.csv").commit
        assert commit.endswith("which brought the table"), name


@pytest.mark.parametrize("data_set", ["mnist", "cifar10"])
def test_networks_of_the_paper_have_parameters_of_the_package(data_set, common):
    table = loaded(PAPERS / "gems2019_table6.py")  # a run is slow, and so not in all
    for K in (2, 3, 5):
        hidden_layers = table.as_paper(K, data_set)["hidden_layers"]
        assert hidden_layers.geometry == "ball"


# Settings of a table that are settings of another one: there a method has one figure.
SAME_SETTINGS = [
    (
        ("gems2019_figures3_4", "softmax regressions", 1000.0),
        ("gems2019_table5", "K=5", None),
    ),
    (("gems2019_figures3_4", "networks", 1000.0), ("gems2019_table6", "K=5", None)),
]
SAME_SETTINGS += [
    (("gems2019_table9", "all nodes", None), ("gems2019_table6", "K=5", None)),
    (
        ("gems2019_table9_cifar10", "all nodes", None),
        ("gems2019_table6_cifar10", "K=5", None),
    ),
]
SAME_SETTINGS += [
    ((f"pfnm_depth{data}", split, 1.0), (f"pfnm_nodes{data}", split, 10.0))
    for data in ("", "_cifar10")
    for split in ("homogeneous", "heterogeneous")
]
# Names of methods in the first table that the second has under another name.
OTHER_NAMES = {"averaged, untuned": "averaged"}


def figures_of(common, setting):
    """Lines by method and measure of one setting of a table."""
    name, title, x = setting
    lines = common.read(common.RESULTS / f"{name}.csv")
    return {
        (OTHER_NAMES.get(line.method, line.method), line.measure): line
        for line in lines
        if (line.setting, line.x) == (title, x)
    }


@pytest.mark.parametrize(("one", "other"), SAME_SETTINGS)
def test_a_method_has_one_figure_for_a_setting(one, other, common):
    figures = figures_of(common, one)
    other_figures = figures_of(common, other)
    shared = figures.keys() & other_figures.keys()
    older = loaded(ROOT / "docs" / "results.py").OLDER_METHODS
    if other[0] in older or one[0] in older:
        # The page says that these are older than the method.
        shared = {key for key in shared if common.LITERAL not in key[0]}
    assert len(shared) >= 3
    for key in shared:
        line = figures[key]
        other_line = other_figures[key]
        # A distilled network's size is chosen by the table.
        if line.trials == other_line.trials and line.method != "distilled":
            assert line.mean == pytest.approx(other_line.mean, abs=6e-4), (one, key)
        else:
            # Means of other trials: by what trials differ, and no more.
            spread = max(line.spread, other_line.spread, 0.01)
            assert abs(line.mean - other_line.mean) <= 4 * spread, (one, key)


def test_no_table_has_a_figure_twice(common):
    for path in sorted(common.RESULTS.glob("*.csv")):
        keys = [line[:3] + line[4:5] for line in common.read(path)]
        assert len(set(keys)) == len(keys), path.name


def test_lines_that_are_not_measured_anew_are_kept(common, tmp_path):
    def line(method, mean):
        return common.Line(
            "K=5", None, method, False, "accuracy", mean, 0, 3, None, False
        )

    path = tmp_path / "table.csv"
    old = [line("local", 0.5), line("vote", 0.6)]
    common.write(old, path, common.Origin("12345678", "--trials 3"))
    assert common.read_origin(path) == ("12345678", "--trials 3", "nothing")
    merged, kept = common.with_earlier(
        [line("vote", 0.7), line("ours", 0.8)], common.read(path)
    )
    assert [one.mean for one in merged] == [0.5, 0.7, 0.8]
    assert kept == ["local"]


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    """A file of ten classes, whose features are no pixels."""
    rng = np.random.default_rng(1)
    means = 4 * rng.normal(size=(10, 40))

    def draw(n_rows):
        y = np.resize(np.arange(10), n_rows)
        return means[y] + rng.normal(scale=0.1, size=(n_rows, 40)), y

    X_train, y_train = draw(600)
    X_test, y_test = draw(100)
    path = tmp_path_factory.mktemp("results") / "features.npz"
    np.savez(path, X_train=X_train, y_train=y_train, X_test=X_test, y_test=y_test)
    return path


# Accuracy of the pooled model on CIFAR-10 in the papers' tables, and further options.
TABLES_OF_FEATURES = {
    "gems2019_table5": (0.597, []),
    "gems2019_table6": (0.651, ["--rounds"]),
}


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("gems2019_table5", "cifar10"),
        pytest.param("gems2019_table6", "cifar10", marks=pytest.mark.slow),
        ("gems2019_table5", "vectors"),
    ],
)
def test_tables_of_features_have_the_papers_figures_where_there_are_such(
    name, source, features, tmp_path
):
    pooled_in_paper, options = TABLES_OF_FEATURES[name]
    for package in ("torch", "skorch", "matplotlib"):
        pytest.importorskip(package)
    module = loaded(PAPERS / f"{name}.py")
    argv = ["--quick", "--data", str(features), "--out", str(tmp_path), "--of", source]
    argv += ["--nodes", "2", "--epochs", "15"]
    module.PROGRAM.main([*argv, *options])
    table = sys.modules["_common"].read(tmp_path / f"{name}_{source}.csv")
    lines = {line.method: line for line in table if line.measure == "accuracy"}
    expected = pooled_in_paper if source == "cifar10" else None
    assert lines["pooled"].paper == expected
    assert lines["public rows alone"].paper is None
    # Features are not divided by 255, as pixels are: the classes stay far apart.
    assert lines["public rows alone"].mean == 1.0


@pytest.mark.parametrize("name", EVERY_PROGRAM)
def test_every_program_writes_and_prints_a_table(name, images, tmp_path, capsys):
    for package in ("torch", "skorch", "matplotlib"):
        pytest.importorskip(package)
    module = loaded(PAPERS / f"{name}.py")
    argv = ["--quick", "--data", str(images), "--out", str(tmp_path), "--epochs", "1"]
    lines = module.PROGRAM.main([*argv, *SMALLEST.get(name, [])])
    printed = capsys.readouterr().out
    assert f"Written to {tmp_path / name}.csv" in printed
    assert all(line.method in printed for line in lines)
    origin = sys.modules["_common"].read_origin(tmp_path / f"{name}.csv")
    assert origin.settings.startswith("--quick")
    table = sys.modules["_common"].read(tmp_path / f"{name}.csv")
    assert [line[:5] for line in table] == [line[:5] for line in lines]
    assert all(line.quick for line in table)
    assert (tmp_path / f"{name}.png").stat().st_size < 60_000  # bytes
    # Something is measured, of ours and of what it is compared with.
    assert {line.ours for line in table if line.trials} == {True, False}
