# SPDX-License-Identifier: BSD-3-Clause
"""Columns of texts by the command line: the front, from its file to the model."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from skgems import Disclosure, GEMSLogisticAggregator, PooledTransformer
from skgems._cli import main
from skgems._cli._files import UntrustedTypesError, load_skops
from skgems._cli._front import front_of_table, read_front
from skgems.channels import aggregator_of_settings
from skgems.guard import inspect
from skgems.steps import KINDS, ColumnsOf, RandomFeatures, auto_front

pandas = pytest.importorskip("pandas")
skops_io = pytest.importorskip("skops.io")

NODES = ("lyon", "paris", "rome")
FRONT = """\
[columns]
age = "SimpleImputer | StandardScaler"
"blood group" = "encoded"
price = "drop"

[other]
numbers = "scaled"
texts = "OneHotEncoder(handle_unknown='ignore', sparse_output=False)"
"""


N_ROWS = 80  # of each site


def make_frame(seed):
    """Patients of one site: numbers and words, both with gaps, and a status."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(N_ROWS) % 2)
    frame = pandas.DataFrame({"age": rng.normal(50, 9, N_ROWS) + 9 * y})
    frame["job"] = np.where(rng.random(N_ROWS) < 0.2, "smith", "cook")
    frame["blood group"] = np.array(["A", "B"])[y ^ (rng.random(N_ROWS) < 0.2)]
    frame["price"] = rng.gamma(2, 30, N_ROWS)
    frame["crp"] = rng.gamma(2, 3, N_ROWS)
    frame.loc[::9, "crp"] = np.nan
    frame.loc[::7, "job"] = np.nan
    frame["status"] = np.array(["good", "bad"])[y]
    return frame


def frames_by_site():
    return {name: make_frame(seed) for seed, name in enumerate(NODES)}


def rows_of_all_sites():
    """All rows and their labels, in the order of the sites."""
    frame = pandas.concat(frames_by_site().values(), ignore_index=True)
    return frame.drop(columns="status"), frame["status"].to_numpy()


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A folder with the tables of three sites, in which commands are typed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    for name, frame in frames_by_site().items():
        frame.to_csv(f"{name}.csv", index=False)
    Path("front.toml").write_text(FRONT)
    return tmp_path


def start(front):
    """Start a study of linear models behind a front; the exit code."""
    argv = ["start", "study", "--method", "linear", "--nodes", *NODES]
    return main([*argv, "--set", "random_state=0", "--front", front])


def answer(number, node, *options):
    """Answer one request of the study; the exit code."""
    request = f"study/requests/{number:03d}-{node}.safetensors"
    argv = ["answer", request, "--rows", f"{node}.csv", "--label", "status"]
    ledger = ["--state", f"ledger of {node}"]
    return main([*argv, "--name", node, *ledger, "--yes", *options])


def combine_study():
    """Take the replies of the study, and write m.skops at its end; the exit code."""
    return main(["combine", "study", "--out", "m.skops"])


def combine_tables(*options, out="m.joblib"):
    """Make a model of all tables at this place; the exit code."""
    argv = ["combine", ".", "--method", "auto", "--out", out, "--label", "status"]
    return main([*argv, *options])


def run_study():
    """Answer and combine until there is a model; the tasks that were asked."""
    tasks = []
    while (code := combine_study()) == 3:
        number = len(tasks) + 1
        request = inspect(f"study/requests/{number:03d}-lyon.safetensors")
        tasks.append(request.task)
        for node in NODES:
            if Path(f"study/requests/{number:03d}-{node}.safetensors").exists():
                assert answer(number, node) == 0
    assert code == 0
    return tasks


def load_by_printed_line(printed):
    """The model, loaded by the line of Python that was printed."""
    (line,) = re.findall(r"In Python: (.*)$", printed, flags=re.MULTILINE)
    return eval(line, {"skops": sys.modules["skops"]})


@pytest.mark.parametrize(
    ("front", "tasks"),
    [("auto", ["front", "join"]), ("front.toml", ["front", "front", "join"])],
)
def test_texts_and_gaps_of_three_sites_become_a_model(work, capsys, front, tasks):
    assert start(front) == 0
    assert run_study() == tasks
    model = load_by_printed_line(capsys.readouterr().out)
    X, y = rows_of_all_sites()
    assert model.score(X, y) > 0.7
    in_process = GEMSLogisticAggregator(
        [(name, None) for name in NODES],
        disclosure=Disclosure(),
        front=read_front(front),
        random_state=0,
    )
    in_process.fit(X, y, nodes=np.repeat(NODES, N_ROWS))
    np.testing.assert_allclose(
        model.predict_proba(X), in_process.predict_proba(X), atol=1e-9
    )
    names = model[0].get_feature_names_out()
    # The file drops the price.
    assert ("numbers__price" in names) == (front == "auto")
    # An unknown word and missing cells have a class, too.
    row = pandas.DataFrame([{"age": 50, "job": "pilot", "price": 1.0}])
    row = row.reindex(columns=X.columns).astype({"blood group": object})
    assert model.predict(row)[0] in ("good", "bad")


@pytest.mark.parametrize("options", [[], ["--front", "front.toml"]])
def test_a_model_of_tables_at_one_place_is_loaded_by_the_printed_line(
    work, capsys, options
):
    settings = ["--set", "random_state=0", "budget=small"]
    assert combine_tables(*options, *settings, out="auto.skops") == 0
    model = load_by_printed_line(capsys.readouterr().out)
    X, y = rows_of_all_sites()
    assert model.score(X, y) > 0.7
    if options:  # the file drops the price
        names = model[0].get_feature_names_out()
        assert not [name for name in names if "price" in name]


def test_the_printed_line_of_a_joblib_file_is_that_of_joblib(work, capsys):
    options = ["--front", "front.toml", "--set", "budget=small"]
    assert combine_tables(*options, out="auto.joblib") == 0
    assert "In Python: joblib.load('auto.joblib')" in capsys.readouterr().out


def test_a_configuration_may_hold_the_front(work):
    text = 'method = "linear"\nfront = "auto"\nlabel = "status"\nset = {C = 2.0}\n'
    Path("shared.toml").write_text(text + f"nodes = {list(NODES)}\n")
    assert main(["start", "study", "--config", "shared.toml"]) == 0
    assert '"kind": "ColumnTransformer"' in Path("study/agreement.json").read_text()
    argv = ["answer", "study/requests/001-lyon.safetensors", "--rows", "lyon.csv"]
    assert main([*argv, "--name", "lyon", "--config", "shared.toml"]) == 0


def test_a_node_keeps_to_the_front_that_it_agreed_to(work, capsys):
    assert start("auto") == 0
    Path("agreement.json").write_bytes(Path("study/agreement.json").read_bytes())
    agreed = ["--agreement", "agreement.json", "--state", "state"]
    assert answer(1, "lyon", *agreed) == 0
    start_another = ["start", "other", "--method", "linear", "--nodes", "lyon"]
    assert main([*start_another, "--front", "front.toml"]) == 0
    request = "other/requests/001-lyon.safetensors"
    rows = ["--rows", "lyon.csv", "--label", "status", "--name", "lyon"]
    assert main(["answer", request, *rows, *agreed]) == 1
    assert "for the exchange" in capsys.readouterr().err


# ---- tables that do not go with the front ------------------------------------------


def set_column(node, name, cells):
    """Put a column of texts into the table of a node."""
    frame = pandas.read_csv(f"{node}.csv", dtype=str, keep_default_na=False)
    frame.assign(**{name: cells}).to_csv(f"{node}.csv", index=False)


def remove_column(node, name):
    """Take a column out of the table of a node."""
    frame = pandas.read_csv(f"{node}.csv", dtype=str, keep_default_na=False)
    frame.drop(columns=name).to_csv(f"{node}.csv", index=False)


AGES_WITH_A_TEXT = ["<20", *["31"] * (N_ROWS - 1)]


def test_a_front_of_numbers_is_doubted_at_each_node(work, capsys):
    assert start("SimpleImputer | StandardScaler") == 0
    for node in NODES:
        assert answer(1, node) == 0
        warning = capsys.readouterr().err
        assert f"{node}.csv" in warning
        assert "['job', 'blood group'] hold texts" in warning
        assert len(warning.splitlines()) == 1


def test_a_front_of_numbers_is_refused_by_the_server(work, capsys):
    assert start("SimpleImputer | StandardScaler") == 0
    for node in NODES:
        assert answer(1, node) == 0
    capsys.readouterr()
    assert combine_study() == 1
    error = capsys.readouterr().err
    words = "SimpleImputer takes numbers, but the columns ['job', 'blood group']"
    assert words in error
    assert "--front auto" in error
    assert "'lyon', 'paris', 'rome'" in error


def test_texts_that_others_lack_are_doubted_once(work, capsys):
    """And not in later messages, which come if the server could go on."""
    set_column("rome", "notes", ["some", "words"] * 40)
    assert start("StandardScaler | PCA(2)") == 0
    drop = ["--drop", "job", "blood group", "crp"]
    # Rome is asked once more, when the others have no column of this name.
    for number, nodes in enumerate((NODES, ["rome"], NODES), 1):
        for node in nodes:
            assert answer(number, node, *drop) == 0
        warnings = capsys.readouterr().err
        assert ("['notes'] hold texts" in warnings) == (number == 1)
        assert main(["combine", "study", "--out", "m.joblib"]) == 3


def test_a_column_that_a_node_lacks_is_named_with_table_and_node(work, capsys):
    remove_column("rome", "age")
    assert start("front.toml") == 0
    assert answer(1, "lyon") == 0
    capsys.readouterr()
    assert answer(1, "rome") == 1
    assert capsys.readouterr().err == (
        "skgems: error: rome.csv: node 'rome': X lacks the columns ['age'].\n"
    )


def test_texts_at_one_site_and_numbers_at_others_are_named(work, capsys):
    set_column("rome", "age", AGES_WITH_A_TEXT)
    assert start("auto") == 0
    for node in NODES:
        assert answer(1, node) == 0
    warnings = capsys.readouterr().err
    assert "rome.csv: column 'age' is read as texts, since '<20' in line 2" in warnings
    assert "--na" in warnings
    assert combine_study() == 3
    warnings = capsys.readouterr().err
    assert "column 'age' holds texts only at the nodes ['rome']" in warnings
    assert answer(2, "lyon") == 1
    error = capsys.readouterr().err
    assert "lyon.csv: node 'lyon': the column 'age' holds numbers here" in error


def test_a_text_that_is_typed_as_missing_makes_no_column_of_texts(work, capsys):
    set_column("rome", "age", AGES_WITH_A_TEXT)
    assert start("auto") == 0
    assert answer(1, "rome", "--na", "<20", "--to", "reply.safetensors") == 0
    assert "read as texts" not in capsys.readouterr().err


def test_tables_at_one_place_that_differ_are_named(work, capsys):
    set_column("rome", "age", AGES_WITH_A_TEXT)
    assert combine_tables() == 1
    words = "rome.csv: column 'age' holds texts, '<20' in line 2, but numbers in "
    assert words in capsys.readouterr().err
    assert combine_tables("--na", "<20", "--set", "budget=small") == 0


def test_tables_at_one_place_may_have_an_empty_column(work):
    set_column("rome", "job", "")
    assert combine_tables("--set", "budget=small", "random_state=0") == 0


def test_a_column_that_identifies_patients_is_left_out_with_a_warning(work, capsys):
    for node in NODES:
        set_column(node, "patient", [f"{node} {k}" for k in range(N_ROWS)])
    assert start("auto") == 0
    assert run_study() == ["front", "join"]
    printed = capsys.readouterr()
    assert "leaves out the columns ['patient']" in printed.err
    names = load_by_printed_line(printed.out)[0].get_feature_names_out()
    assert not [name for name in names if "pat" in name]


def test_dates_are_said_to_be_texts(work, capsys):
    for node in NODES:
        set_column(node, "day", ["2024-05-01", "03.07.2024"] * 40)
    assert start("auto") == 0
    assert answer(1, "lyon") == 0
    assert "lyon.csv: the columns 'day' hold dates" in capsys.readouterr().err


# ---- fronts in files ---------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(KINDS, key=lambda kind: kind.__name__))
def test_a_file_may_have_every_step_that_sums_fit(kind):
    name = kind.__name__
    if name == "Backbone":
        pytest.skip("Nobody can type the layers of a net.")
    # A PCA that is made of sums takes no seed.
    needs_seed = "random_state" in kind().get_params() and name != "PCA"
    front = front_of_table(
        {
            "columns": {"a": f"{name}(random_state=0)" if needs_seed else name},
            "other": {"numbers": "drop", "texts": "drop"},
        }
    )
    _, step, _ = front.transformers[0]
    assert type(step) is kind


def test_columns_of_the_same_steps_go_through_them_together():
    table = {
        "columns": {"a": "PCA(1)", "b": "scaled", "c": "PCA(1)", "d": "keep"},
        "other": {"numbers": "keep", "texts": "drop"},
        "together": {"steps": "StandardScaler | PCA(2)"},
        "bounds": {"a": [0, 9.5]},
    }
    front = front_of_table(table)
    assert type(front) is PooledTransformer
    assert front.bounds == {"a": (0, 9.5)}
    (_, by_columns), (_, together) = front.transformer.steps
    assert [columns for _, _, columns in by_columns.transformers] == [
        ["a", "c"],
        ["b"],
        ["d"],
        ColumnsOf("numbers", without=list("abcd")),
        ColumnsOf("texts", without=list("abcd")),
    ]
    assert len(together) == 2
    with pytest.raises(ValueError, match="bounds must be a table of columns"):
        front_of_table(table | {"bounds": "tell"})


OTHER = "[other]\nnumbers = 'scaled'\ntexts = 'encoded'\n"


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "[colums]\n",
            "the table 'colums' is unknown. A front has the tables columns, other",
        ),
        ("[columns]\n", "other must say what is done to all other columns"),
        ("[other]\nnumbers = 'scaled'", "other must say what is done"),
        ("[other]\nnumbers = 'drop'\ntexts = 'keep'", "texts cannot be kept"),
        ("columns = 'a'\n" + OTHER, "columns must be a table: a line [columns]"),
        ("[columns]\na = 1\n" + OTHER, "the steps of 'a' must be a text"),
        ("[columns]\ncrp.mg = 'x'\n" + OTHER, "the steps of 'crp' must be a text"),
        ("[columns]\na = 'Scaler'\n" + OTHER, "columns: 'a': 'Scaler' is neither a wo"),
        ("[columns]\na = 'KNNImputer'\n" + OTHER, "'KNNImputer' is neither a word"),
        ("[columns]\na = 'PCA(\"mle\")'\n" + OTHER, "PCA(n_components='mle')"),
        (
            OTHER + "[together]\nstep = 'PCA(1)'",
            "together must hold steps = '...' and nothing else",
        ),
        (OTHER + "[bounds]\na = [3, 1]", "the bounds of 'a' must be two numbers"),
        (
            OTHER + "[bounds]\na = ['0', '1']",
            "the bounds of 'a' must be two numbers",
        ),
        ("bounds = 3\n" + OTHER, "bounds must be a table of columns"),
        ("[columns\n", "line 1"),
    ],
)
def test_an_error_of_a_file_names_the_table_and_begins_no_study(
    work, capsys, text, message
):
    Path("front.toml").write_text(text)
    assert start("front.toml") == 1
    error = capsys.readouterr().err
    assert error.startswith("skgems: error: front.toml: ")
    assert message in error
    assert len(error.splitlines()) == 1
    assert not Path("study").exists()


@pytest.fixture
def columns_front():
    return ColumnTransformer(
        [
            ("n", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "crp"]),
            ("t", OneHotEncoder(handle_unknown="ignore"), ColumnsOf("texts")),
            ("r", RandomFeatures(5, random_state=0), ["price"]),
        ]
    )


def test_a_front_may_be_a_file_of_skops(work, columns_front):
    skops_io.dump(columns_front, "front.skops")
    assert repr(read_front("front.skops")) == repr(columns_front)
    front = PooledTransformer(columns_front, bounds={"age": (0, 9)})
    skops_io.dump(front, "front.skops")
    assert read_front("front.skops").bounds == {"age": (0, 9)}


def test_a_front_of_a_file_is_not_fitted(work, columns_front):
    """The front in the file may be fitted, but to one table only."""
    skops_io.dump(columns_front.fit(frames_by_site()["lyon"]), "front.skops")
    assert not hasattr(read_front("front.skops"), "transformers_")


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (
            FunctionTransformer(remove_column),
            "has types that skops does not trust",
        ),
        (
            FunctionTransformer(np.abs),
            "FunctionTransformer is not a function of sums",
        ),
        (
            ColumnTransformer([("n", StandardScaler(), make_column_selector("a"))]),
            "ColumnsOf('numbers')",
        ),
    ],
)
def test_what_cannot_be_a_front_in_a_file_of_skops_is_refused(
    work, capsys, transformer, message
):
    skops_io.dump(transformer, "front.skops")
    assert start("front.skops") == 1
    error = capsys.readouterr().err
    assert error.startswith("skgems: error: front.skops: ")
    assert message in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--front", "none.toml"], "--front none.toml: there is no such file"),
        (["--front", "Scaler"], "--front: 'Scaler' is not a transformer of a front"),
        (["--front", "front.tml"], "give the word auto"),
        (["--set", "front=PCA"], "Give it as --front 'PCA'"),
    ],
)
def test_what_is_typed_wrongly_is_named(work, capsys, options, message):
    argv = ["start", "study", "--method", "linear", "--nodes", "lyon", *options]
    assert main(argv) == 1
    assert message in capsys.readouterr().err


def test_a_file_of_skops_may_have_an_imputer_that_is_fitted(work):
    skops_io.dump(SimpleImputer().fit([[1.0], [3.0]]), "filled.skops")
    assert skops_io.get_untrusted_types(file="filled.skops") == ["numpy.dtype"]
    assert load_skops("filled.skops").statistics_ == [2.0]


def test_functions_of_a_file_of_skops_must_be_trusted_by_name(work):
    skops_io.dump(FunctionTransformer(remove_column), "function.skops")
    with pytest.raises(UntrustedTypesError) as error:
        load_skops("function.skops")
    transformer = load_skops("function.skops", trusted=error.value.types)
    assert transformer.func is remove_column


def test_summaries_behind_a_front_are_combined_with_its_file(work, capsys):
    front = PooledTransformer(auto_front())
    Path("of_front").mkdir()
    Path("of_model").mkdir()
    for name, frame in frames_by_site().items():
        X = frame.drop(columns="status")
        front.summarize(X, name=name).save(f"of_front/{name}")
    front.set_params(summaries=sorted(Path("of_front").iterdir())).fit()
    front.save("front.safetensors")
    agg = GEMSLogisticAggregator(front=front, random_state=0)
    for name, frame in frames_by_site().items():
        X = frame.drop(columns="status")
        summary = agg.summarize(None, X, frame["status"], name=name)
        summary.save(f"of_model/{name}.safetensors")
    argv = ["combine", "of_model", "--out", "m.skops"]
    assert main(argv) == 1
    assert "front" in capsys.readouterr().err
    assert main([*argv, "--front", "front.safetensors"]) == 0
    agg.set_params(estimators=sorted(Path("of_model").iterdir())).fit()
    model = load_by_printed_line(capsys.readouterr().out)
    np.testing.assert_allclose(model.predict_proba(X), agg.predict_proba(X))


@pytest.mark.parametrize("front", ["front.safetensors", "StandardScaler", "auto"])
def test_settings_that_others_wrote_name_no_file(work, front):
    """As those in a summary."""
    PooledTransformer(StandardScaler()).fit(np.eye(3)).save("front.safetensors")
    with pytest.raises(ValueError, match="is not a front"):
        aggregator_of_settings("GEMSLogisticAggregator", {"front": front})


def test_a_study_that_began_takes_no_other_front(work, capsys):
    assert start("auto") == 0
    assert main(["combine", "study", "--out", "m.skops", "--front", "auto"]) == 1
    assert "were given to skgems start" in capsys.readouterr().err


def test_a_front_of_tables_at_one_place_has_no_bounds(work, capsys):
    Path("front.toml").write_text(OTHER + "[bounds]\nage = [0, 99]\n")
    assert combine_tables("--front", "front.toml") == 1
    assert "without bounds" in capsys.readouterr().err


def test_the_word_auto_is_the_automatic_front():
    assert repr(read_front("auto")) == repr(auto_front())
