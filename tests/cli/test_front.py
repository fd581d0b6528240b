# SPDX-License-Identifier: BSD-3-Clause
"""Columns of texts by the command line: the front, from its file to the model."""

import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from skgems import GEMSLogisticAggregator, PooledTransformer
from skgems._cli import main
from skgems._cli._files import UntrustedTypesError, load_skops
from skgems._cli._front import front_of_table, read_front
from skgems.channels import inspect, of_settings
from skgems.steps import ColumnsOf, RandomFeatures, auto_front
from skgems.steps._kinds import KINDS

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


def frames(n_rows=80):
    found = {}
    for k, name in enumerate(NODES):
        rng = np.random.default_rng(k)
        y = rng.permutation(np.arange(n_rows) % 2)
        frame = pandas.DataFrame({"age": rng.normal(50, 9, n_rows) + 9 * y})
        frame["job"] = np.where(rng.random(n_rows) < 0.2, "smith", "cook")
        frame["blood group"] = np.array(["A", "B"])[y ^ (rng.random(n_rows) < 0.2)]
        frame["price"] = rng.gamma(2, 30, n_rows)
        frame["crp"] = rng.gamma(2, 3, n_rows)
        frame.loc[::9, "crp"] = np.nan
        frame.loc[::7, "job"] = np.nan
        frame["status"] = np.array(["good", "bad"])[y]
        found[name] = frame
    return found


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A folder with the tables of three sites, in which commands are typed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    for name, frame in frames().items():
        frame.to_csv(f"{name}.csv", index=False)
    Path("front.toml").write_text(FRONT)
    return tmp_path


def start(front, *more):
    argv = ["start", "study", "--method", "linear", "--nodes", *NODES, "--set"]
    return main([*argv, "random_state=0", "--front", front, *more])


def answer(number, node, *more):
    request = f"study/requests/{number:03d}-{node}.safetensors"
    argv = ["answer", request, "--rows", f"{node}.csv", "--label", "status"]
    return main([*argv, "--name", node, "--yes", *more])


def to_the_end(*more, out="m.skops"):
    """Answer and combine until there is a model; the tasks that were asked."""
    tasks = []
    while (code := main(["combine", "study", "--out", out])) == 3:
        tasks.append(inspect(f"study/requests/{len(tasks) + 1:03d}-lyon.safetensors"))
        for node in NODES:
            if Path(f"study/requests/{len(tasks):03d}-{node}.safetensors").exists():
                assert answer(len(tasks), node, *more) == 0
    assert code == 0
    return [request.task for request in tasks]


def loaded(said):
    """The model, read by the line that was printed."""
    (line,) = re.findall(r"In Python: (.*)$", said, flags=re.MULTILINE)
    return eval(line, {"skops": sys.modules["skops"]})


@pytest.mark.parametrize("front", ["auto", "front.toml"])
def test_texts_and_gaps_of_three_sites_become_a_model(work, capsys, front):
    assert start(front) == 0
    tasks = to_the_end()
    assert tasks == [*(["front"] * (1 if front == "auto" else 2)), "join"]
    model = loaded(capsys.readouterr().out)
    whole = pandas.concat(frames().values(), ignore_index=True)
    X, y = whole.drop(columns="status"), whole["status"].to_numpy()
    assert model.score(X, y) > 0.7
    nodes = np.repeat(NODES, 80)
    same = GEMSLogisticAggregator(front=read_front(front), random_state=0)
    same.set_params(estimators=[(name, None) for name in NODES]).fit(X, y, nodes=nodes)
    np.testing.assert_allclose(model.predict_proba(X), same.predict_proba(X), atol=1e-9)
    names = model[0].get_feature_names_out()
    assert ("numbers__price" in names) == (front == "auto")
    # Words and categories that nobody has seen, and nothing at all.
    odd = pandas.DataFrame([{"age": 50, "job": "pilot", "price": 1.0}])
    odd = odd.reindex(columns=X.columns).astype({"blood group": object})
    assert model.predict(odd)[0] in ("good", "bad")


def test_a_model_of_tables_at_one_place_is_read_by_the_printed_line(work, capsys):
    for more in ([], ["--front", "front.toml"]):
        argv = ["combine", ".", "--method", "auto", "--label", "status", *more]
        out = ["--out", "auto.skops", "--set", "random_state=0", "budget=small"]
        assert main([*argv, *out]) == 0
        model = loaded(capsys.readouterr().out)
        whole = pandas.concat(frames().values(), ignore_index=True)
        assert model.score(whole.drop(columns="status"), whole["status"]) > 0.7
    names = model[0].get_feature_names_out()
    assert not [name for name in names if "price" in name]
    assert main([*argv, "--out", "auto.joblib"]) == 0
    assert "In Python: joblib.load('auto.joblib')" in capsys.readouterr().out


def test_a_configuration_has_the_front_too(work):
    text = 'method = "linear"\nfront = "auto"\nlabel = "status"\nset = {C = 2.0}\n'
    Path("shared.toml").write_text(text + f"nodes = {list(NODES)}\n")
    assert main(["start", "study", "--config", "shared.toml"]) == 0
    assert '"kind": "ColumnTransformer"' in Path("study/agreement.json").read_text()
    argv = ["answer", "study/requests/001-lyon.safetensors", "--rows", "lyon.csv"]
    assert main([*argv, "--name", "lyon", "--config", "shared.toml"]) == 0


def test_a_node_keeps_to_the_front_that_it_agreed_to(work, capsys):
    assert start("auto") == 0
    Path("agreement.json").write_bytes(Path("study/agreement.json").read_bytes())
    kept = ["--agreement", "agreement.json", "--state", "kept"]
    assert answer(1, "lyon", *kept) == 0
    argv = ["start", "other", "--method", "linear", "--nodes", "lyon", "--front"]
    assert main([*argv, "front.toml"]) == 0
    argv = ["--rows", "lyon.csv", "--label", "status", "--name", "lyon", *kept]
    request = "other/requests/001-lyon.safetensors"
    assert main(["answer", request, *argv]) == 1
    assert "of the exchange" in capsys.readouterr().err


# ---- what is wrong ---------------------------------------------------------------


def change(node, **columns):
    frame = pandas.read_csv(f"{node}.csv", dtype=str, keep_default_na=False)
    for name, values in columns.items():
        frame = (
            frame.drop(columns=name)
            if values is None
            else frame.assign(**{name: values})
        )
    frame.to_csv(f"{node}.csv", index=False)


def test_a_front_of_numbers_is_doubted_at_the_node_and_refused_by_the_server(
    work, capsys
):
    assert start("SimpleImputer | StandardScaler") == 0
    for node in NODES:
        assert answer(1, node) == 0
        said = capsys.readouterr().err
        assert f"{node}.csv" in said and "['job', 'blood group'] hold texts" in said
        assert len(said.splitlines()) == 1
    assert main(["combine", "study", "--out", "m.skops"]) == 1
    said = capsys.readouterr().err
    assert "SimpleImputer takes numbers, but the columns ['job', 'blood group']" in said
    assert "--front auto" in said and "'lyon', 'paris', 'rome'" in said


def test_texts_that_others_lack_are_doubted_once(work, capsys):
    """And not in later messages, which come if the server could go on."""
    change("rome", more=["some", "words"] * 40)
    assert start("StandardScaler | PCA(2)") == 0
    drop = ["--drop", "job", "blood group", "crp"]
    for number, nodes in enumerate((NODES, ["rome"], NODES), 1):
        for node in nodes:
            assert answer(number, node, *drop) == 0
        said = capsys.readouterr().err
        assert ("['more'] hold texts" in said) == (number == 1)
        assert main(["combine", "study", "--out", "m.joblib"]) == 3


def test_a_column_that_a_node_lacks_is_named_with_table_and_node(work, capsys):
    change("rome", age=None)
    assert start("front.toml") == 0
    assert answer(1, "lyon") == 0
    capsys.readouterr()
    assert answer(1, "rome") == 1
    said = capsys.readouterr().err
    assert (
        said == "skgems: error: rome.csv: node 'rome': X lacks the columns ['age'].\n"
    )
    assert (
        main(
            ["start", "any", "--method", "linear", "--nodes", *NODES, "--front"]
            + ["auto"]
        )
        == 0
    )


def test_texts_at_one_site_and_numbers_at_others_are_named(work, capsys):
    change("rome", age=["<20", *["31"] * 79])
    assert start("auto") == 0
    for node in NODES:
        assert answer(1, node) == 0
    said = capsys.readouterr().err
    assert "rome.csv: column 'age' is read as texts, since '<20' in line 2" in said
    assert "--na" in said
    assert main(["combine", "study", "--out", "m.skops"]) == 3
    said = capsys.readouterr().err
    assert "column 'age' holds texts at the nodes ['rome'] alone" in said
    assert answer(2, "lyon") == 1
    said = capsys.readouterr().err
    assert "lyon.csv: node 'lyon': the column 'age' holds numbers here" in said
    # And read as the word of the sentence says, it is none.
    assert answer(1, "rome", "--na", "<20", "--to", "reply.safetensors") == 0
    assert "read as texts" not in capsys.readouterr().err


def test_tables_at_one_place_that_differ_are_named(work, capsys):
    change("rome", age=["<20", *["31"] * 79])
    argv = ["combine", ".", "--method", "auto", "--out", "m.joblib", "--label"]
    assert main([*argv, "status"]) == 1
    said = capsys.readouterr().err
    assert (
        "rome.csv: column 'age' holds texts, '<20' in line 2, but numbers in " in said
    )
    assert main([*argv, "status", "--na", "<20", "--set", "budget=small"]) == 0


def test_tables_at_one_place_may_have_an_empty_column(work):
    change("rome", job="")
    argv = ["combine", ".", "--method", "auto", "--out", "m.joblib", "--label"]
    assert main([*argv, "status", "--set", "budget=small", "random_state=0"]) == 0


def test_a_number_of_patients_is_left_out_with_a_word(work, capsys):
    for node in NODES:
        change(node, patient=[f"{node} {k}" for k in range(80)])
    assert start("auto") == 0
    assert to_the_end() == ["front", "join"]
    told = capsys.readouterr()
    assert "leaves out the columns ['patient']" in told.err
    assert not [n for n in loaded(told.out)[0].get_feature_names_out() if "pat" in n]


def test_dates_are_said_to_be_texts(work, capsys):
    for node in NODES:
        change(node, day=["2024-05-01", "03.07.2024"] * 40)
    assert start("auto") == 0
    assert answer(1, "lyon") == 0
    assert "lyon.csv: the columns 'day' hold dates" in capsys.readouterr().err


# ---- what may be typed -----------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(KINDS, key=lambda kind: kind.__name__))
def test_a_file_may_have_every_step_that_sums_fit(kind):
    """Of a net nobody can type the layers."""
    if kind.__name__ == "Backbone":
        pytest.skip("it is a net")
    own = kind()
    seed = "(random_state=0)" if "random_state" in own.get_params() else ""
    seed = "" if kind.__name__ == "PCA" else seed
    table = {"columns": {"a": f"{kind.__name__}{seed}"}}
    front = front_of_table(table | {"other": {"numbers": "drop", "texts": "drop"}})
    assert type(front.transformers[0][1]) is kind


def test_columns_of_the_same_steps_go_through_them_together():
    table = {
        "columns": {"a": "PCA(1)", "b": "scaled", "c": "PCA(1)", "d": "keep"},
        "other": {"numbers": "keep", "texts": "drop"},
        "together": {"steps": "StandardScaler | PCA(2)"},
        "bounds": {"a": [0, 9.5]},
    }
    front = front_of_table(table)
    assert type(front) is PooledTransformer and front.bounds == {"a": (0, 9.5)}
    columns, *rest = [step for _, step in front.transformer.steps]
    assert [chosen for _, _, chosen in columns.transformers] == [
        *(["a", "c"], ["b"], ["d"]),
        *(ColumnsOf(k, without=list("abcd")) for k in ("numbers", "texts")),
    ]
    assert len(rest) == 1 and len(rest[0]) == 2
    assert front_of_table(table | {"bounds": "tell"}).bounds == "tell"


OTHER = "[other]\nnumbers = 'scaled'\ntexts = 'encoded'\n"


@pytest.mark.parametrize(
    "text, message",
    [
        ("[colums]\n", "there is 'colums', but a front has the tables columns, other"),
        ("[columns]\n", "other: it must say what is done to all other columns"),
        ("[other]\nnumbers = 'scaled'", "other: it must say what is done"),
        ("[other]\nnumbers = 'drop'\ntexts = 'keep'", "texts cannot be kept"),
        ("columns = 'a'\n" + OTHER, "columns must be a table: a line [columns]"),
        ("[columns]\na = 1\n" + OTHER, "the steps of 'a' must be a text"),
        ("[columns]\ncrp.mg = 'x'\n" + OTHER, "the steps of 'crp' must be a text"),
        ("[columns]\na = 'Scaler'\n" + OTHER, "columns: 'a': 'Scaler' is neither a wo"),
        ("[columns]\na = 'KNNImputer'\n" + OTHER, "'KNNImputer' is neither a word"),
        ("[columns]\na = 'PCA(\"mle\")'\n" + OTHER, "PCA cannot choose by 'mle'"),
        (OTHER + "[together]\nstep = 'PCA(1)'", "together: it has steps = '...' alone"),
        (OTHER + "[bounds]\na = [3, 1]", "bounds: those of 'a' must be two numbers"),
        (
            OTHER + "[bounds]\na = ['0', '1']",
            "bounds: those of 'a' must be two numbers",
        ),
        ("bounds = 3\n" + OTHER, "bounds must be a table of columns"),
        ("[columns\n", "line 1"),
    ],
)
def test_what_is_wrong_in_a_file_is_said(work, capsys, text, message):
    Path("front.toml").write_text(text)
    assert start("front.toml") == 1
    said = capsys.readouterr().err
    assert said.startswith("skgems: error: front.toml: ") and message in said
    assert len(said.splitlines()) == 1 and not Path("study").exists()


def test_a_front_in_a_file_of_skops(work, capsys):
    own = ColumnTransformer(
        [
            ("n", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "crp"]),
            ("t", OneHotEncoder(handle_unknown="ignore"), ColumnsOf("texts")),
            ("r", RandomFeatures(5, random_state=0), ["price"]),
        ]
    )
    skops_io.dump(own, "front.skops")
    assert repr(read_front("front.skops")) == repr(own)
    # What it was fitted to is that of one table.
    skops_io.dump(clone(own).fit(frames()["lyon"]), "front.skops")
    assert not hasattr(read_front("front.skops"), "transformers_")
    skops_io.dump(PooledTransformer(own, bounds={"age": (0, 9)}), "front.skops")
    assert read_front("front.skops").bounds == {"age": (0, 9)}
    for wrong, message in (
        (FunctionTransformer(change), "it has types that skops does not know"),
        (FunctionTransformer(np.abs), "FunctionTransformer is no function of sums"),
        (
            ColumnTransformer([("n", StandardScaler(), make_column_selector("a"))]),
            "ColumnsOf('numbers')",
        ),
    ):
        skops_io.dump(wrong, "front.skops")
        assert start("front.skops") == 1
        said = capsys.readouterr().err
        assert said.startswith("skgems: error: front.skops: ") and message in said


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--front", "none.toml"], "--front none.toml: there is no such file"),
        (["--front", "Scaler"], "--front: 'Scaler' is no transformer of a front"),
        (["--front", "front.tml"], "Or give the word auto"),
        (["--set", "front=PCA"], "--set: the front is given by --front 'PCA'"),
    ],
)
def test_what_is_typed_wrongly_is_said(work, capsys, argv, message):
    typed = ["start", "study", "--method", "linear", "--nodes", "lyon", *argv]
    assert main(typed) == 1
    assert message in capsys.readouterr().err


def test_a_file_of_skops_may_have_an_imputer_that_is_fitted(work):
    skops_io.dump(SimpleImputer().fit([[1.0], [3.0]]), "filled.skops")
    assert skops_io.get_untrusted_types(file="filled.skops") == ["numpy.dtype"]
    assert load_skops("filled.skops").statistics_ == [2.0]
    skops_io.dump(FunctionTransformer(change), "own.skops")
    with pytest.raises(UntrustedTypesError) as refused:
        load_skops("own.skops")
    assert load_skops("own.skops", trusted=refused.value.types).func is change


def test_summaries_behind_a_front_are_combined_with_its_file(work, capsys):
    front = PooledTransformer(auto_front())
    Path("told").mkdir()
    for name, frame in frames().items():
        rows = frame.drop(columns="status")
        front.summarize(rows, name=name).save(f"told/{name}")
    front.set_params(summaries=sorted(Path("told").iterdir())).fit()
    front.save("front.safetensors")
    agreed = GEMSLogisticAggregator(front=front, random_state=0)
    Path("sent").mkdir()
    for name, frame in frames().items():
        rows, labels = frame.drop(columns="status"), frame["status"]
        agreed.summarize(None, rows, labels, name=name).save(f"sent/{name}.safetensors")
    argv = ["combine", "sent", "--out", "m.skops"]
    assert main(argv) == 1
    assert "front" in capsys.readouterr().err
    assert main([*argv, "--front", "front.safetensors"]) == 0
    same = agreed.set_params(estimators=sorted(Path("sent").iterdir())).fit()
    np.testing.assert_allclose(
        loaded(capsys.readouterr().out).predict_proba(rows), same.predict_proba(rows)
    )


def test_settings_of_others_name_no_file(work):
    """As those of a summary, which somebody else wrote."""
    PooledTransformer(StandardScaler()).fit(np.eye(3)).save("front.safetensors")
    for named in ("front.safetensors", "StandardScaler", "auto"):
        with pytest.raises(ValueError, match="is no front"):
            of_settings("GEMSLogisticAggregator", {"front": named})


def test_where_a_front_cannot_be_used(work, capsys):
    assert start("auto") == 0
    assert main(["combine", "study", "--out", "m.skops", "--front", "auto"]) == 1
    assert "were given to skgems start" in capsys.readouterr().err
    Path("front.toml").write_text(OTHER + "[bounds]\nage = [0, 99]\n")
    argv = ["combine", ".", "--method", "auto", "--label", "status", "--out", "m.skops"]
    assert main([*argv, "--front", "front.toml"]) == 1
    assert "without bounds" in capsys.readouterr().err
    assert repr(read_front("auto")) == repr(auto_front())
