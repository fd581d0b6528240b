# SPDX-License-Identifier: BSD-3-Clause
"""What the columns of nodes hold: tables, whichever way the nodes are asked."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial

import numpy as np
import pytest
from helpers.disclosures import rule_of

from skgems import Disclosure, describe, survey
from skgems.asking import Message, Nodes
from skgems.guard import NotAgreedError, reply_to

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
N_ROWS = 300
SITES = RNG.permutation(np.repeat(["lyon", "nice", "paris"], [150, 90, 60]))
LABELS = np.where(RNG.random(N_ROWS) < 0.3, "ill", "well")


def make_table() -> pd.DataFrame:
    """Columns of all kinds; gaps that are enough at each site."""
    table = pd.DataFrame(
        {
            "age": RNG.integers(20, 90, N_ROWS),
            "dose": np.exp(RNG.normal(size=N_ROWS)),
            "sex": RNG.choice(["f", "m"], N_ROWS),
            "day": pd.Timestamp("2020-01-01"),
            "patient": [f"p{k}" for k in RNG.permutation(N_ROWS)],
        }
    )
    table.loc[::3, "dose"] = np.nan
    return table


TABLE = make_table()


def table_of(site: str) -> pd.DataFrame:
    return TABLE[site == SITES]


def surveys(**options) -> list[Message]:
    """What the sites send by themselves."""
    return [
        survey(table_of(site), LABELS[site == SITES], name=site, **options)
        for site in sorted(set(SITES))
    ]


def of_column(table, column: str, *names: str) -> list:
    """Entries of a table that are about a column."""
    places = [k for k, other in enumerate(table["column"]) if other == column]
    return [[table[name][k] for name in names] for k in places]


# ---- figures -----------------------------------------------------------------------


def test_figures_are_those_of_all_rows_at_one_place():
    # A rule that lowers no weight here: two rows of a sum are enough.
    rule = Disclosure(rows=2, cell=1, unknowns=1.0)
    description = describe(TABLE, LABELS, SITES, disclosure=rule)
    for column in ("age", "dose"):
        ((n_nodes, n_rows, n_gaps, mean, std),) = of_column(
            description.total, column, "nodes", "rows", "gaps", "mean", "std"
        )
        values = TABLE[column].dropna()
        assert (n_nodes, n_rows, n_gaps) == (3, N_ROWS, N_ROWS - len(values))
        np.testing.assert_allclose([mean, std], [values.mean(), values.std(ddof=0)])
        for site, *figures in of_column(
            description.by_node, column, "node", "rows", "gaps", "mean", "std"
        ):
            rows = table_of(site)[column]
            expected = [len(rows), rows.isna().sum(), rows.mean(), rows.std(ddof=0)]
            np.testing.assert_allclose(figures, expected)


def test_quartiles_are_within_a_group_of_those_of_all_rows():
    description = describe(TABLE, nodes=SITES)
    ((*quartiles,),) = of_column(description.total, "age", "25 %", "median", "75 %")
    ranks = np.searchsorted(np.sort(TABLE["age"]), quartiles) / N_ROWS
    # The largest groups are 10 of the 60 rows of Paris.
    np.testing.assert_allclose(ranks, [0.25, 0.5, 0.75], atol=1 / 12)


def test_quartiles_of_few_rows_are_unknown():
    X = RNG.normal(size=(39, 1))
    (quartiles,) = of_column(describe(X).by_node, "x0", "mean", "median")
    assert quartiles == [pytest.approx(X.mean()), None]
    (quartiles,) = of_column(describe(X, disclosure=rule_of(9)).by_node, "x0", "median")
    assert quartiles != [None]


def test_categories_are_counted_by_node_and_over_all():
    description = describe(TABLE, LABELS, SITES)
    rows = of_column(description.categories, "sex", "node", "category", "rows")
    counts = {(site, label): n for site, label, n in rows}
    for label in "fm":
        is_label = np.asarray(TABLE["sex"]) == label
        assert counts[None, label] == is_label.sum()
        for site in set(SITES):
            assert counts[site, label] == (is_label & (site == SITES)).sum()
    classes = of_column(description.categories, "(classes)", "node", "category", "rows")
    n_ill = int((LABELS == "ill").sum())
    assert classes[:2] == [[None, "well", N_ROWS - n_ill], [None, "ill", n_ill]]


def test_rare_categories_are_others_and_the_mean_of_rare_numbers_is_unknown():
    X = np.repeat([0.0, 1.0], [60, 3]).reshape(-1, 1)
    description = describe(X)
    assert description.total["mean"] == [None]
    rows = of_column(description.categories, "x0", "category", "rows")
    assert rows[:2] == [[0, 53], [None, 10]]
    assert describe(X, disclosure=None).total["mean"] == [pytest.approx(3 / 63)]


def test_totals_are_over_the_nodes_that_have_a_mean():
    grades = np.repeat([0.0, 1.0], [60, 3]).reshape(-1, 1)
    numbers = RNG.normal(size=(50, 1))
    X = np.concatenate([grades, numbers])
    description = describe(X, nodes=np.repeat(["lyon", "nice"], [63, 50]))
    assert description.by_node["mean"][0] is None
    assert description.total["mean"] == [pytest.approx(numbers.mean())]


# ---- notes -------------------------------------------------------------------------


def test_notes_name_what_needs_a_look():
    lyon = table_of("lyon")
    paris = table_of("paris").drop(columns="dose").assign(age="unknown")
    sent = [
        survey(lyon, LABELS[SITES == "lyon"], name="lyon"),
        survey(paris, name="paris"),
    ]
    notes = describe(summaries=sent).notes
    assert len(notes) == 4
    assert notes[0].startswith("Column 'age' holds numbers or texts")
    assert notes[1] == "Column 'dose' is missing at the nodes 'paris'."
    assert notes[2].startswith("Column 'patient' identifies rows")
    assert notes[3] == "Column '(classes)' is missing at the nodes 'paris'."


def test_a_column_without_values_at_a_node_is_of_the_kind_of_the_others():
    words = ["a"] * 20 + [None] * 20
    table = pd.DataFrame({"word": words, "number": 1.0})
    description = describe(table, nodes=np.repeat(["lyon", "nice"], 20))
    assert description.total["kind"] == ["texts", "numbers"]
    assert description.notes == ()


def test_columns_may_stand_in_another_order():
    tables = [table_of("lyon"), table_of("paris")[TABLE.columns[::-1]]]
    sent = [survey(table, name=str(k)) for k, table in enumerate(tables)]
    description = describe(summaries=sent)
    assert description.total["column"] == list(TABLE.columns)
    assert description.total["nodes"] == [2] * len(TABLE.columns)
    assert len(description.notes) == 1  # of the patients


# ---- ways to ask ---------------------------------------------------------------------


def ask(requests):
    for name, request in requests.items():
        is_here = name == SITES
        yield (
            name,
            reply_to(request, None, TABLE[is_here], LABELS[is_here], name=name),
        )


def test_rows_files_and_channels_give_the_same_description(tmp_path):
    of_rows = describe(TABLE, LABELS, SITES)
    paths = [tmp_path / f"{k}.safetensors" for k in range(3)]
    for path, sent in zip(paths, surveys(), strict=True):
        sent.save(path)
    channel = Nodes(ask, sorted(set(SITES)))
    assert describe(summaries=paths) == describe(summaries=surveys()) == of_rows
    assert describe(summaries=channel) == of_rows
    strict = Nodes(ask, sorted(set(SITES)), disclosure=rule_of(20))
    with (
        pytest.warns(UserWarning, match="answers with disclosure=.*min_rows=10"),
        pytest.raises(ValueError, match="answered with disclosure=.*min_rows=10"),
    ):
        describe(summaries=strict)


def test_a_channel_of_another_agreement_is_not_asked():
    from sklearn.preprocessing import StandardScaler

    from skgems import PooledTransformer
    from skgems.guard import Agreement

    agreement = Agreement.of(PooledTransformer(StandardScaler()))
    ledgers = {site: {} for site in set(SITES)}

    def ask_with_ledger(requests):
        for name, request in requests.items():
            yield (
                name,
                reply_to(request, None, TABLE, LABELS, name=name, state=ledgers[name]),
            )

    channel = Nodes(ask_with_ledger, sorted(set(SITES)), agreement=agreement)
    with pytest.raises(NotAgreedError, match="the task 'survey' is not agreed"):
        describe(summaries=channel)


def test_a_description_is_made_for_pandas_and_json():
    description = describe(TABLE, LABELS, SITES)
    frame = pd.DataFrame(description.by_node)
    assert len(frame) == 3 * 6
    assert json.loads(json.dumps(asdict(description)))["min_rows"]["lyon"] == 10


def test_a_page_has_a_line_for_each_column_and_node():
    page = str(describe(TABLE, LABELS, SITES)).splitlines()
    assert page[0] == "Nodes: 'lyon', 'nice', 'paris'."
    assert page[1] == "Every number is about at least 10 rows of a node (min_rows)."
    head = page.index("") + 1
    assert page[head].split()[:4] == ["column", "node", "kind", "rows"]
    assert [line.split()[:2] for line in page[head + 1 : head + 4]] == [
        ["age", "all"],
        ["lyon", "numbers"],
        ["nice", "numbers"],
    ]
    assert page[-1].startswith("Note: Column 'patient' identifies rows")


def test_a_page_does_not_steer_the_terminal():
    steering = "x\x1b[2J"
    honest = survey(pd.DataFrame({steering: ["x"] * 20}), name=steering)
    told = {**honest.content["columns"]["0"], "labels": [steering]}
    content = {**honest.content, "columns": {"0": told}}
    hostile = Message.of("survey", **content).with_envelope(node=steering)
    page = str(describe(summaries=[hostile]))
    assert "\x1b" not in page and "x\\x1b[2J" in page


# ---- what is refused -----------------------------------------------------------------


def test_wrong_summaries_are_refused(tmp_path):
    first, second, _ = surveys()
    with pytest.raises(ValueError, match="There are no rows and no summaries"):
        describe()
    with pytest.raises(TypeError, match=r"summaries\[1\] is no survey"):
        describe(summaries=[first, Message.of("counts")])
    with pytest.raises(ValueError, match="There are two surveys of node 'lyon'"):
        describe(summaries=[first, second, first])
    path = tmp_path / "nice.safetensors"
    Message.of("survey", **{**second.content, "n_rows": 7}).save(path)
    with pytest.raises(ValueError, match=r"nice.safetensors, the survey of node '0'"):
        describe(summaries=[path])


@pytest.mark.parametrize("disclosure", [10, "none", {"min_rows": 10}])
def test_what_is_no_rule_is_an_error(disclosure):
    for tell in (describe, partial(survey, name="lyon")):
        with pytest.raises(ValueError, match="^disclosure=.* is none of 'auto', None"):
            tell(TABLE, disclosure=disclosure)


def test_missing_labels_are_refused():
    with pytest.raises(ValueError, match="Node 'lyon': y has no label"):
        survey(TABLE, [None] * N_ROWS, name="lyon")
