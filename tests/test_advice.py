# SPDX-License-Identifier: BSD-3-Clause
"""What errors, warnings and help advise exists: parameters, values, classes, extras.

The texts are read out of the source. Each ``name=value`` in them is looked up in
``SPOKEN_OF``, which says whose parameter that is, and the value is given to what checks
it there. A text with a new name fails until it has an entry.
"""

from __future__ import annotations

import argparse
import builtins
import importlib
import importlib.util
import inspect
import re
import tomllib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import sklearn
from helpers.texts import PACKAGE, Text, texts
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import FeatureUnion
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils import all_estimators
from sklearn.utils._param_validation import validate_parameter_constraints

import skgems
from skgems import (
    Disclosure,
    DistillationAggregator,
    EnsembleAggregator,
    Exchange,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
    PooledTransformer,
    Privacy,
    combine,
    guard,
)
from skgems._cli._options import make_parser
from skgems._cli._server import parameter
from skgems.asking import Message
from skgems.datasets import hold_out_public, partition_by_label, partition_dirichlet
from skgems.gems import HiddenLayers, Moments, Spaces
from skgems.guard import Agreement, Limits, RowsAskedAgainWarning, reply_to
from skgems.messages import sealed
from skgems.steps import Backbone, ColumnsOf

LINEAR, NETWORKS = GEMSLogisticAggregator, GEMSMLPAggregator

# ---- parameters --------------------------------------------------------------------

# What may stand behind "name=": a quoted word, a list, a number, a name, or nothing.
PIECE = re.compile(
    r"""(?<![\w./<{-])(?P<name>[A-Za-z_]\w*)=(?!=)
    (?P<value>"[^"]*" | '[^']*' | \[[^\]]*\] | \{[^}]*\} | [\w.+-]*\w)?""",
    re.VERBOSE,
)
# Further values of the name before them: "moments='diagonal' (or 'shared', ...)".
OR_ELSE = re.compile(r"\bor (?:all with )?'(\w+)'")


@dataclass(frozen=True)
class Advice:
    """A piece ``name=value`` of a text."""

    room: str
    place: str
    name: str
    value: str | None  # as it is written; None where the text leaves it open


def arguments_behind(words: str, end: int) -> str:
    """What stands in parentheses right behind a place, these included; or nothing."""
    if words[end : end + 1] != "(":
        return ""
    depth = 0
    for place in range(end, len(words)):
        depth += {"(": 1, ")": -1}.get(words[place], 0)
        if depth == 0:
            return words[end : place + 1]
    return ""


def is_left_open(value: str | None) -> bool:
    """Whether a text leaves to its reader which value a parameter gets."""
    if value is None:
        return True
    return "..." in value[:5] or value.startswith("{") or "{}" in value


def advice_in(text: Text) -> Iterator[Advice]:
    """Each piece ``name=value`` of a text; one for each of the values it offers."""
    matches = list(PIECE.finditer(text.words))
    # Further values of a name stand before the next name.
    ends = [*(match.start() for match in matches), len(text.words)][1:]
    for match, end in zip(matches, ends, strict=True):
        offered_values = [match["value"]]
        if match["value"] is not None:
            offered_values[0] += arguments_behind(text.words, match.end())
        if is_left_open(offered_values[0]):
            offered_values = [None]
        else:
            further_words = text.words[match.end() : end]
            offered_values += [repr(word) for word in OR_ELSE.findall(further_words)]
        for value in offered_values:
            yield Advice(text.room, text.place, match["name"], value)


@cache
def all_advice() -> list[Advice]:
    """All pieces ``name=value`` of the texts of the package."""
    return [advice for text in texts() for advice in advice_in(text)]


# Of which class, method or function a text of a room speaks, by the parameter's name.
SPOKEN_OF: dict[str, dict[str, tuple[Callable, ...]]] = {
    "_cli": {
        "C": (LINEAR,),
        "min_rows": (Disclosure,),
        "rows": (Disclosure,),
        "epochs": (Limits,),
        "epsilon": (LINEAR,),
        "most_epsilon": (Limits,),
        "n_rounds": (LINEAR, NETWORKS, PFNMAggregator, ModelAveragingAggregator),
        "pooled": (PooledAggregator,),
    },
    "averaging": {
        "align": (ModelAveragingAggregator,),
        "n_rounds": (ModelAveragingAggregator,),
        "nodes": (ModelAveragingAggregator.fit,),
    },
    "base": {
        "cv": (StackingClassifier,),
        "front": (
            LINEAR,
            NETWORKS,
            PFNMAggregator,
            ModelAveragingAggregator,
            PooledAggregator,
        ),
        "n_features": (HashingVectorizer, FeatureHasher),
        "nodes": (combine,),
    },
    "choice": {"min_rows": (Disclosure,), "scoring": (combine,)},
    "disclosure": {
        "cell": (Disclosure,),
        "disclosure": (reply_to,),
        "min_rows": (Disclosure,),
        "rows": (Disclosure,),
        "unknowns": (Disclosure,),
    },
    "datasets": {
        "groups": (partition_by_label,),
        "min_size": (partition_dirichlet,),
        "other_labels": (partition_by_label,),
        "size": (hold_out_public,),
    },
    "ensembles": {
        "student": (DistillationAggregator,),
        "combine": (EnsembleAggregator,),
        "disclosure": (combine,),
        "front": (combine,),
        "n_features": (HashingVectorizer, FeatureHasher),
    },
    "channels": {
        "nodes": (Exchange,),
    },
    "parties": {
        "epsilon": (LINEAR,),
        "groups": (combine, reply_to, LINEAR.summarize, PooledAggregator.summarize),
        "held_out": (reply_to, LINEAR.summarize),
        "intersection": (LINEAR,),
        "min_rows": (Disclosure,),
        "n_jobs": (LINEAR, ModelAveragingAggregator),
        "nodes": (LINEAR.fit, NETWORKS.fit, PooledAggregator.fit, PFNMAggregator.fit),
    },
    "asking": {
        "bounds": (PooledTransformer,),
        "categories": (OneHotEncoder, OrdinalEncoder),
        "disclosure": (reply_to, LINEAR.summarize, Agreement),
        "epsilon": (Privacy,),
        "keep_replies": (LINEAR, PooledAggregator),
        "min_rows": (Disclosure,),
        "moments": (LINEAR,),
        "n_rounds": (LINEAR,),
        "node_weight": (LINEAR,),
        "nodes": (LINEAR.fit, NETWORKS.fit, PooledAggregator.fit, PFNMAggregator.fit),
        "privacy": (LINEAR, PooledAggregator),
        "robust": (LINEAR, PooledAggregator),
        "threshold": (LINEAR.evaluate,),
    },
    "guard": {
        "again": (reply_to,),
        "agreement": (reply_to,),
        "disclosure": (reply_to, LINEAR.summarize, Agreement),
        "epsilon": (LINEAR,),
        "groups": (combine, reply_to, LINEAR.summarize, PooledAggregator.summarize),
        "intersection": (LINEAR,),
        "limits": (reply_to,),
        "min_rows": (Disclosure,),
        "most_epsilon": (Limits,),
        "radii": (reply_to,),
        "request": (guard.inspect,),
        "chunks": (
            LINEAR.summarize,
            ModelAveragingAggregator.summarize,
            PFNMAggregator.summarize,
            PooledAggregator.summarize,
        ),
        "space": (LINEAR.summarize,),
    },
    "gems": {
        "C": (LINEAR, LogisticRegression, LinearSVC),
        "alpha": (RidgeClassifier, SGDClassifier),
        "class_weight": (LINEAR,),
        "classes": (LINEAR.summarize,),
        "criterion": (Spaces,),
        "disclosure": (LINEAR.summarize,),
        "cov_type": (LINEAR.inference,),
        "epsilon": (LINEAR,),
        "fit_intercept": (LINEAR, LogisticRegression, RidgeClassifier, SGDClassifier),
        "geometry": (Spaces, HiddenLayers),
        "intersection": (LINEAR,),
        "keep_replies": (LINEAR,),
        "n_common_units": (NETWORKS,),
        "n_rounds": (LINEAR,),
        "node_weight": (LINEAR,),
        "nodes": (LINEAR.fit, NETWORKS.fit),
        "reference": (LINEAR.inference,),
        "robust": (LINEAR,),
        "site_intercepts": (LINEAR.inference,),
        "space": (LINEAR.summarize,),
        "spaces": (LINEAR,),
    },
    "local": {
        "limits": (reply_to,),
        "metric": (NearestCentroid,),
        "min_rows": (Disclosure,),
        "positive": (RidgeClassifier,),
        "shrinkage": (LinearDiscriminantAnalysis,),
        "solver": (LogisticRegression,),
        "tree_bytes": (Limits,),
        "unknowns": (Disclosure,),
    },
    "messages": {
        "agreement": (reply_to,),
        "disclosure": (Agreement, Exchange, reply_to),
    },
    "moments": {
        "geometry": (Spaces, HiddenLayers),
        "moments": (LINEAR,),
        "robust": (LINEAR, PooledAggregator),
        "solver": (LinearDiscriminantAnalysis,),
    },
    "networks": {
        "front": (LINEAR, NETWORKS, ModelAveragingAggregator),
        "loss": (SGDClassifier,),
        "metric": (NearestCentroid,),
        "nodes": (combine,),
        "pooled": (PooledAggregator,),
        "refit": (GridSearchCV,),
        "shrinkage": (LinearDiscriminantAnalysis,),
        "solver": (LinearDiscriminantAnalysis,),
    },
    "pfnm": {"last_layer": (PFNMAggregator,), "n_rounds": (PFNMAggregator,)},
    "pooled": {
        "bootstrap": (RandomForestClassifier,),
        "class_weight": (RandomForestClassifier,),
        "front": (PooledAggregator,),
        "max_depth": (RandomForestClassifier, HistGradientBoostingClassifier),
        "max_features": (ExtraTreesClassifier,),
        "min_impurity_decrease": (ExtraTreesClassifier,),
        "nodes": (PooledAggregator.fit,),
        "pooled": (PooledAggregator,),
        "robust": (PooledAggregator,),
        "solver": (LinearDiscriminantAnalysis,),
        "var_smoothing": (GaussianNB,),
    },
    "private": {
        "classes": (Privacy,),
        "delta": (Privacy,),
        "epsilon": (Privacy,),
        "high": (Privacy,),
        "low": (Privacy,),
        "moments": (LINEAR,),
        "privacy": (LINEAR, PooledAggregator),
    },
    "spaces": {
        "construction": (Spaces,),
        "criterion": (Spaces,),
        "geometry": (Spaces, HiddenLayers),
    },
    "steps": {
        "bounds": (PooledTransformer,),
        "categories": (OneHotEncoder, OrdinalEncoder),
        "drop_identifiers": (PooledTransformer,),
        "front": (LINEAR, EnsembleAggregator),
        "n_components": (PCA,),
        "n_features": (HashingVectorizer, FeatureHasher),
        "random_state": (RBFSampler,),
        "strategy": (SimpleImputer,),
        "svd_solver": (PCA,),
        "with_mean": (StandardScaler,),
        "without": (ColumnsOf,),
    },
    "tasks": {
        "disclosure": (reply_to,),
        "bootstrap": (RandomForestClassifier,),
        "fit_intercept": (LogisticRegression, RidgeClassifier, SGDClassifier),
        "cell": (Disclosure,),
        "min_rows": (Disclosure,),
        "rows": (Disclosure,),
        "unknowns": (Disclosure,),
    },
}
# Parameters of packages of extras: module and name of a class or function.
OF_EXTRAS = {
    ("_cli", "trusted"): ("skops.io", "load"),
    ("local", "classes"): ("skorch", "NeuralNetClassifier"),
    ("local", "threshold"): ("skorch", "NeuralNetBinaryClassifier"),
    ("networks", "classes"): ("skorch", "NeuralNetClassifier"),
}
# What looks like a parameter and is none.
NO_PARAMETERS = {
    ("_cli", "NAME"): "stands for any parameter, in the usage of --set",
    ("_cli", "charset"): "of the page that a report is written to",
    ("_cli", "content"): "of the page that a report is written to",
    ("_cli", "lang"): "of the page that a report is written to",
    ("_cli", "name"): "of the page that a report is written to",
    ("asking", "file"): "of a function of skops, in a model card",
    ("asking", "trusted"): "of a function of skops, in a model card",
    ("base", "class"): "of an element of the page that a notebook shows",
    ("_cli", "sep"): "a first line of a table, by which Excel is told the separator",
    ("_cli", "pooled__max_depth"): "of the trees that pooled names",
    ("parties", "n_samples"): "how check_estimator wants few rows to be named",
    (
        "channels",
        "min_nodes",
    ): "the repr of FlowerNodes, which the package flwr defines",
    ("moments", "min_cluster_size"): "a field of a request",
    ("networks", "dim"): "of torch.softmax, in a value of predict_nonlinearity",
    ("networks", "predict_nonlinearity"): "of nets of skorch, which is a function",
    ("tasks", "model"): "a field of a request",
    ("asking", "privacy__epsilon"): "of the Privacy that privacy holds",
    ("spaces", "name"): "of a class statement: class Mine(Geometry, name='...')",
}
# Values that are no literals.
NAMES = {
    "Backbone": Backbone,
    "Disclosure": Disclosure,
    "FeatureUnion": FeatureUnion,
    "name": "backbone",
    "net": "a digest",
}
# Arguments, which stand for whatever the reader calls so.
ARGUMENTS = {"nodes"}


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Sixty rows of three classes, and their labels."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    return rng.normal(size=(60, 4)) + y[:, None], y


def summarize(**options) -> None:
    """A call of ``summarize`` with the options that a text names."""
    aggregator = GEMSLogisticAggregator(random_state=0)
    X, y = rows()
    aggregator.summarize(LogisticRegression().fit(X, y), X, y, name="lyon", **options)


def reply(**options) -> None:
    """A call of ``reply_to`` with the options that a text names."""
    if "again" in options:
        reply_to_second_exchange(**options)
    else:
        X, y = rows()
        classifier = LogisticRegression().fit(X, y)
        reply_to(Message.of("describe"), classifier, X, y, name="lyon", **options)


def reply_to_second_exchange(**options) -> None:
    """A call of ``reply_to`` about rows that an earlier exchange was of."""
    state: dict = {}
    reply_to_first_message(n_components=16, state=state)
    reply_to_first_message(n_components=2, state=state, **options)


def reply_to_first_message(*, n_components: int, state: dict, **options) -> None:
    """Reply to the first request of an exchange with these settings."""
    X, y = rows()
    server = LINEAR(moments=Moments(n_components=n_components), random_state=0)
    request = server._agreed_terms.first_message()
    request = sealed(request, Agreement.of(server))
    classifier = LogisticRegression().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RowsAskedAgainWarning)
        reply_to(request, classifier, X, y, name="lyon", state=state, **options)


def agreed(**options) -> None:
    """An agreement on what the linear method asks."""
    Agreement.of(LINEAR(), **options)


def exchanged(**options) -> None:
    """An exchange in a new folder."""
    with TemporaryDirectory() as folder:
        Exchange(folder, LINEAR(random_state=0), nodes=["lyon"], **options)


def combined(front=None, **options) -> None:
    """A call of ``combine``: on texts, with a front that a text names, or on rows."""
    X, y = rows()
    nodes = np.where(np.arange(len(y)) < 24, "lyon", "oslo")
    if front is None:
        combine(None, X, y, nodes=nodes, budget="small", random_state=0, **options)
        return
    X = [f"word{label}" for label in y]
    if isinstance(front, FeatureHasher):
        X = [{word: 1.0} for word in X]
    combine(None, X, y, nodes=nodes, front=front, random_state=0)


# Calls of functions that do not declare what values they take, to see whether they take
# the one that a text names.
CALLS = {
    Agreement: agreed,
    Disclosure: Disclosure,
    Exchange: exchanged,
    LINEAR.summarize: summarize,
    Limits: Limits,
    combine: combined,
    reply_to: reply,
}


@cache
def names_in_values() -> dict:
    """What a value in a text may be made of."""
    return {**{kind.__name__: kind for _, kind in all_estimators()}, **NAMES}


def value_of(advice: Advice) -> object:
    """The value that is written in a text, as an object."""
    if advice.room == "_cli":  # typed behind --set
        return parameter(f"{advice.name}={advice.value}")[1]
    return eval(advice.value, {"__builtins__": {}}, names_in_values())


def check_accepts(spoken_of: Callable, *, name: str, value: object) -> None:
    """Raise where a class, method or function does not accept a value."""
    constraints = getattr(spoken_of, "_parameter_constraints", None)
    constraints = getattr(spoken_of, "_skl_parameter_constraints", constraints)
    if constraints is not None:
        caller = spoken_of.__name__
        validate_parameter_constraints({name: constraints[name]}, {name: value}, caller)
    else:
        CALLS[spoken_of](**{name: value})


def check_that_it_exists(advice: Advice) -> None:
    """Raise where there is no such parameter, or where it does not take the value."""
    if (advice.room, advice.name) in NO_PARAMETERS:
        return
    if (advice.room, advice.name) in OF_EXTRAS:
        module, owner = OF_EXTRAS[advice.room, advice.name]
        if importlib.util.find_spec(module.partition(".")[0]) is None:
            return
        spoken_of = getattr(importlib.import_module(module), owner)
        assert advice.name in inspect.signature(spoken_of).parameters
        assert advice.value is None
        return
    owners = SPOKEN_OF.get(advice.room, {})
    assert advice.name in owners, f"Say in SPOKEN_OF whose parameter {advice.name} is."
    for spoken_of in owners[advice.name]:
        assert advice.name in inspect.signature(spoken_of).parameters
        if advice.value is not None and advice.value not in ARGUMENTS:
            check_accepts(spoken_of, name=advice.name, value=value_of(advice))


def test_parameters_and_values_that_texts_name_exist():
    # What several texts of a room advise is tried once.
    tried = {(each.room, each.name, each.value): each for each in all_advice()}
    for advice in tried.values():
        try:
            check_that_it_exists(advice)
        except Exception as error:
            error.add_note(f"{advice.place} says {advice.name}={advice.value}")
            raise


def test_every_entry_of_the_tables_is_of_a_text_that_there_is():
    in_texts = {(advice.room, advice.name) for advice in all_advice()}
    spoken_of = {(room, name) for room, names in SPOKEN_OF.items() for name in names}
    assert spoken_of | set(NO_PARAMETERS) | set(OF_EXTRAS) == in_texts
    # And none is in two tables.
    assert len(spoken_of) + len(NO_PARAMETERS) + len(OF_EXTRAS) == len(in_texts)


def test_names_and_values_are_read_out_of_texts():
    words = (
        "Set moments='diagonal' (or 'shared'), n_rounds={} or front=Backbone(net). "
        "Give chunks=, fit(X, y, nodes=nodes), classes=[...]; C=0.5, x==3, --a=b, {c}=d"
    )
    advice_of_words = advice_in(Text(room="gems", place="", words=words))
    assert [(advice.name, advice.value) for advice in advice_of_words] == [
        ("moments", "'diagonal'"),
        ("moments", "'shared'"),
        ("n_rounds", None),
        ("front", "Backbone(net)"),
        ("chunks", None),
        ("nodes", "nodes"),
        ("classes", None),
        ("C", "0.5"),
    ]


@pytest.mark.parametrize(
    ("name", "value", "spoken_of"),
    [
        ("epsilon", None, LINEAR),
        ("moments", "full", LINEAR),
        ("other_labels", "rest", partition_by_label),
    ],
)
def test_a_value_that_is_not_accepted_raises(name, value, spoken_of):
    with pytest.raises(sklearn.utils._param_validation.InvalidParameterError):
        check_accepts(spoken_of, name=name, value=value)


def public_rooms() -> list:
    """The package and its rooms, as far as users import from them."""
    folders = [path.parent.name for path in PACKAGE.glob("*/__init__.py")]
    names = [f"skgems.{name}" for name in sorted(folders)]
    rooms = [skgems, *map(importlib.import_module, names)]
    return [room for room in rooms if hasattr(room, "__all__")]


def mentioned(pattern: re.Pattern) -> dict[str, str]:
    """Names that texts of several words mention, with one place of each."""
    return {
        name: text.place
        for text in texts()
        if " " in text.words
        for name in pattern.findall(text.words)
    }


# Names that a reader is to set, without a value: "a larger min_cluster_size".
TO_SET = re.compile(
    r"\b(?:[Ss]et|[Gg]ive|larger|smaller|lower|more|fewer|raise) (?:a )?`?([a-z]+_\w+)"
)


def parameters_of(name: str, room) -> set[str]:
    """Parameters of a public class and of its methods, or of a function."""
    public = getattr(room, name)
    members = vars(public).values() if inspect.isclass(public) else ()
    parameters: set[str] = set()
    for function in filter(callable, [public, *members]):
        try:
            parameters |= set(inspect.signature(function).parameters)
        except ValueError:  # of a type that is not written in Python
            continue
    return parameters


def places_of_unknown(places: dict[str, str], names: set[str]) -> dict[str, str]:
    """What texts mention, and where, that is not among ``names``."""
    return {name: place for name, place in places.items() if name not in names}


def test_names_that_are_to_be_set_are_parameters():
    parameters = set(inspect.signature(sklearn.set_config).parameters)
    for room in public_rooms():
        for name in room.__all__:
            parameters |= parameters_of(name, room)
    for _, kind in all_estimators():
        parameters |= set(inspect.signature(kind).parameters)
    to_set = mentioned(TO_SET)
    assert "min_rows" in to_set
    assert places_of_unknown(to_set, parameters) == {}


# ---- classes, functions, extras and options ----------------------------------------

# Words with two capitals and a small letter.
CAMEL_CASE = re.compile(
    r"(?<![\w./'\"-])(?=[A-Za-z0-9]*[a-z])[A-Z][A-Za-z0-9]*[A-Z][A-Za-z0-9]*\b"
)
DOTTED = re.compile(r"(?<![\w./'\"-])((?:skgems|sklearn)(?:\.[A-Za-z_]\w*)+)")
EXTRA = re.compile(r"skgems\[([\w,]+)\]")
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*[a-z])\b")
# Names of torch and skorch, which need not be here; and words that are no class.
OF_TORCH = {"BatchNorm1d", "LogSoftmax", "ReLU"}
OF_TORCH |= {"NeuralNetBinaryClassifier", "NeuralNetClassifier"}
NO_CLASSES = {"MiB", "NaN", "RdBu", "SQLite"}


def test_classes_that_texts_name_exist():
    classes = {name for room in public_rooms() for name in room.__all__}
    classes |= {name for name, _ in all_estimators()} | set(dir(builtins))
    classes |= set(sklearn.model_selection.__all__)
    in_texts = mentioned(CAMEL_CASE)
    assert "PFNMAggregator" in in_texts
    assert places_of_unknown(in_texts, classes | OF_TORCH | NO_CLASSES) == {}


def test_names_of_torch_are_right():
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")
    for name in OF_TORCH:
        assert hasattr(torch.nn, name) or hasattr(skorch, name)


def test_dotted_names_of_texts_exist():
    dotted = mentioned(DOTTED)
    assert "skgems.Exchange" in dotted
    for name, place in dotted.items():
        module, _, attribute = name.rpartition(".")
        is_attribute = hasattr(importlib.import_module(module), attribute)
        assert is_attribute or importlib.util.find_spec(name), f"{place}: {name}"


def test_extras_that_texts_name_are_those_of_the_project():
    project = PACKAGE.parent / "pyproject.toml"
    if not project.exists():
        pytest.skip("not a checkout")
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    extras = table["optional-dependencies"]
    in_texts = mentioned(EXTRA)  # as "torch" or "torch,flower"
    assert "torch" in in_texts
    for names, place in in_texts.items():
        for name in names.split(","):
            assert name in extras, f"{place}: {name}"


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """Options of a command line and of its commands."""
    options: set[str] = set()
    for action in parser._actions:
        options |= set(action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                options |= options_of(command)
    return options


def test_options_that_texts_name_are_those_of_the_command_line():
    in_texts = mentioned(OPTION)
    assert "--state" in in_texts
    assert places_of_unknown(in_texts, options_of(make_parser())) == {}
