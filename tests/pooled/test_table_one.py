# SPDX-License-Identifier: BSD-3-Clause
"""The first table of a study, from descriptions of nodes."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from skgems import describe, survey
from skgems.datasets import load_penguins

pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def penguins():
    return load_penguins(as_frame=True)


@pytest.fixture(scope="module")
def table(penguins):
    return describe(*penguins).table_one()


def rows_of(table, variable):
    return {row["level"]: row for row in table.rows if row["variable"] == variable}


def test_numbers_have_mean_deviation_and_their_largest_difference(penguins):
    birds, species, islands = penguins
    table = describe(birds, species, islands, disclosure=None).table_one()
    row = rows_of(table, "bill_length_mm")["mean (SD)"]
    of_dream = birds["bill_length_mm"][islands == "Dream"]  # has no gaps
    assert row["Dream"] == f"{of_dream.mean():.4g} ({of_dream.std(ddof=0):.4g})"
    groups = [
        birds["bill_length_mm"][islands == island].dropna()
        for island in np.unique(islands)
    ]
    differences = [
        abs(a.mean() - b.mean()) / np.sqrt((a.var(ddof=0) + b.var(ddof=0)) / 2)
        for a in groups
        for b in groups
    ]
    assert row["SMD"] == pytest.approx(max(differences))


def test_quartiles_are_between_the_numbers_that_stand_there(penguins):
    birds, species, islands = penguins
    for min_rows in (1, 10):
        description = describe(
            birds, species, islands, disclosure=None if min_rows == 1 else "auto"
        )
        told = description.quartiles
        places = zip(*told.values(), strict=True)
        n_checked = 0
        for column, node, name, lower, upper in places:
            if column in ("sex", "(classes)"):
                continue
            rows = slice(None) if node is None else islands == node
            share = {"25 %": 0.25, "median": 0.5, "75 %": 0.75}[name]
            quartile = birds[column][rows].quantile(share)
            assert lower is None or lower <= quartile
            assert upper is None or quartile <= upper
            n_checked += 1
        assert n_checked == 4 * 4 * 3


def test_classes_come_first_with_counts_and_percent(table, penguins):
    _, species, islands = penguins
    assert [row["variable"] for row in table.rows[:2]] == ["rows", "(classes)"]
    row = rows_of(table, "(classes)")["Adelie, n (%)"]
    n = np.sum((species == "Adelie") & (islands == "Biscoe"))
    n_rows = np.sum(islands == "Biscoe")
    assert row["Biscoe"] == f"{n} ({100 * n / n_rows:.1f})"
    assert row["overall"] == f"{np.sum(species == 'Adelie')} (44.2)"
    assert row["Torgersen"] == "52 (100.0)"


def test_differences_of_two_categories_are_those_of_shares():
    y = np.array(["ill"] * 30 + ["well"] * 70 + ["ill"] * 60 + ["well"] * 40)
    nodes = np.repeat(["lyon", "paris"], 100)
    X = np.random.default_rng(0).normal(size=(200, 1))
    row = describe(X, y, nodes).table_one().rows[1]
    p, q = 0.3, 0.6
    expected = abs(p - q) / np.sqrt((p * (1 - p) + q * (1 - q)) / 2)
    assert row["SMD"] == pytest.approx(expected)
    assert describe(X, y).table_one().rows[1]["SMD"] is None


def test_gaps_have_a_row_where_there_are_some(table):
    gaps = rows_of(table, "sex")["gaps, n (%)"]
    assert gaps["Dream"].startswith("10 (")  # counted as so many
    assert "gaps, n (%)" not in rows_of(table, "(classes)")


def test_sites_by_class_are_nodes_of_their_own(penguins):
    birds, species, islands = penguins
    strata = islands.astype(object) + ", " + species
    table = describe(birds, nodes=strata, disclosure=None).table_one()
    row = rows_of(table, "body_mass_g")["mean (SD)"]
    of_dream = birds["body_mass_g"][strata == "Dream, Adelie"]
    assert row["Dream, Adelie"] == f"{of_dream.mean():.4g} ({of_dream.std(ddof=0):.4g})"


def test_a_table_of_files_is_that_of_rows(table, penguins, tmp_path):
    birds, species, islands = penguins
    for island in np.unique(islands):
        rows = islands == island
        sent = survey(birds[rows], species[rows], name=island)
        sent.save(tmp_path / f"{island}.safetensors")
    of_files = describe(summaries=sorted(tmp_path.iterdir())).table_one()
    assert of_files.rows == table.rows


def test_a_column_that_some_nodes_lack_is_empty_there():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)))
    X.columns = ["age", "dose"]
    told = [survey(X, name="lyon"), survey(X[["age"]], name="nice")]
    row = rows_of(describe(summaries=told).table_one(), "dose")["mean (SD)"]
    assert row["nice"] == "-" and row["SMD"] is None
    assert row["lyon"] == row["overall"]


def test_a_table_is_shown_as_text_html_csv_and_a_frame(table, tmp_path):
    lines = str(table).splitlines()
    assert lines[0] == "Table 1" and lines[2].split()[:3] == [
        "overall",
        "Biscoe",
        "Dream",
    ]
    assert any(line.startswith("    median") for line in lines)
    assert "<table>" in table._repr_html_()
    parsed = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [row["level"] for row in parsed] == [row["level"] for row in table.rows]
    assert table.to_csv(tmp_path / "table1.csv") is None
    content = (tmp_path / "table1.csv").read_text(encoding="utf-8")
    assert content == table.to_csv()
    frame = table.to_frame()
    assert frame.loc[("rows", "n"), "Biscoe"] == "168"


def test_sites_that_share_no_value_differ_infinitely():
    nodes = np.repeat(["lyon", "paris"], 40)
    of_lyon = nodes == "lyon"
    X = pd.DataFrame(
        {
            "ward": np.where(of_lyon, "A", np.where(np.arange(80) % 2, "B", "C")),
            "dose": np.where(of_lyon, 0.1, 0.3),
            "unit": np.full(80, 0.1),
        }
    )
    table = describe(X, nodes=nodes).table_one()
    first = {row["variable"]: row["SMD"] for row in table.rows[::-1]}
    assert first["ward"] == first["dose"] == np.inf and first["unit"] == 0.0
    assert str(table).count(" inf\n") == 2 and ",inf\n" in table.to_csv()


def test_a_site_with_one_number_differs_from_one_with_many():
    nodes = np.repeat(["lyon", "paris"], 40)
    doses = np.where(nodes == "lyon", 5.0, np.arange(80) / 10.0)
    X = pd.DataFrame({"dose": doses})
    rows = rows_of(describe(X, nodes=nodes, disclosure=None).table_one(), "dose")
    assert list(rows) == ["mean (SD)", "median", "quartiles"]
    of_paris = doses[40:]
    expected = abs(of_paris.mean() - 5.0) / np.sqrt(of_paris.var() / 2.0)
    assert rows["mean (SD)"]["SMD"] == pytest.approx(expected)
    assert rows["mean (SD)"]["lyon"] == "5 (0)"


@pytest.mark.parametrize("name", ["overall", "SMD", "variable", "level"])
def test_a_node_may_have_the_name_of_a_column(name):
    nodes = np.repeat([name, "lyon", f"node {name}"], 20)
    table = describe(np.arange(60.0).reshape(-1, 1), nodes=nodes).table_one()
    (row, *_) = table.rows
    assert row["overall"] == "60" and row["lyon"] == "20"
    assert row[f"node {name}"] == row[f"node node {name}"] == "20"
    assert (row["variable"], row["level"], row["SMD"]) == ("rows", "n", None)


def test_columns_whose_values_are_not_told_have_a_row():
    days = pd.to_timedelta(np.arange(40), unit="D")
    X = pd.DataFrame({"admitted": pd.Timestamp("2020-01-01") + days})
    X["patient"] = [f"p{k}" for k in range(40)]
    X.loc[:9, "admitted"] = pd.NaT
    table = describe(X, nodes=np.repeat(["lyon", "paris"], 20)).table_one()
    dates = rows_of(table, "admitted")
    assert dates["dates, n (%)"]["lyon"] == "10 (50.0)"
    assert dates["gaps, n (%)"]["overall"] == "10 (25.0)"
    assert rows_of(table, "patient")["identifiers, n (%)"]["paris"] == "20 (100.0)"


def test_time_spans_that_many_rows_have_are_categories():
    spans = pd.to_timedelta(np.arange(60) % 2, unit="D")
    table = describe(pd.DataFrame({"stay": spans})).table_one()
    assert rows_of(table, "stay")["1 days 00:00:00, n (%)"]["all"] == "30 (50.0)"
