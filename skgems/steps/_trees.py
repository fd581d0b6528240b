"""Transformers of fronts as JSON has them, and checks of what a front may be made of.

A transformer travels as a *tree*: the kind of each step, its parameters that are not
defaults, and the trees of the steps within it. For ``PCA(5)`` behind a scaler:

    {"kind": "Pipeline", "steps": [
        ["scale", {"kind": "StandardScaler", "params": {}}],
        ["axes", {"kind": "PCA", "params": {"n_components": 5}}]]}

Trees come from outside, so that only the kinds of `KINDS` are made of them, and
`check_tree` refuses parameters under which a step would need rows itself.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline

from ._backbone import Backbone
from ._columns_of import ColumnsOf
from ._kind import EXTREMES, NotPooledError
from ._kinds import KINDS

# A step: an unfitted transformer, or "passthrough", "drop" or None as in scikit-learn.
Step = BaseEstimator | str | None

_KINDS_BY_NAME = {kind.__name__: kind for kind in KINDS}
_WORDS = ("passthrough", "drop")  # trees of no transformer
# Parameters of a ColumnTransformer that are sent beside its branches; the others change
# nothing in what comes out.
_COLUMN_PARAMS = ("sparse_threshold", "verbose_feature_names_out")
# Steps that may be within each other. Each takes a call of a recursive function, of
# which Python has some thousand: a deeper tree in a message would stop a node.
_DEEPEST = 16


def is_passthrough(step: Step) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


def is_dropped(step: Step) -> bool:
    return isinstance(step, str) and step == "drop"


# ---- a walk over the steps ---------------------------------------------------------


def steps_by_path(transformer: Step, path: str = "0") -> Iterator[tuple[str, Step]]:
    """Steps that are fitted, by their paths: "0/2/1" is the second part of the third.

    The transformer is a checked one.
    """
    if transformer is None or isinstance(transformer, str):
        return
    if isinstance(transformer, Pipeline):
        parts = [step for _, step in transformer.steps]
    elif isinstance(transformer, FeatureUnion):
        parts = [step for _, step in transformer.transformer_list]
    elif isinstance(transformer, ColumnTransformer):
        # The remainder has a path where columns are left, always the last.
        parts = [step for _, step, _ in transformer.transformers]
        parts.append(transformer.remainder)
    else:
        yield path, transformer
        return
    for k, part in enumerate(parts):
        yield from steps_by_path(part, f"{path}/{k}")


def statistics_by_path(
    transformer: Step,
    states: Mapping[str, Mapping],
    *,
    path: str = "0",
    before: tuple = (),
) -> Iterator[tuple[str, tuple]]:
    """Yield the paths of steps that nodes tell a statistic for, and what it is of.

    That is all that decides about the rows that enter the step: steps before it with
    their states, and choices of columns. What stands beside the step is no part of it.
    """
    if transformer is None or isinstance(transformer, str):
        return
    if isinstance(transformer, Pipeline):
        for k, (_, step) in enumerate(transformer.steps):
            place = f"{path}/{k}"
            yield from statistics_by_path(step, states, path=place, before=before)
            before = (*before, as_tree(step), _told_states(step, states, path=place))
    elif isinstance(transformer, FeatureUnion | ColumnTransformer):
        for k, (step, choice) in enumerate(_choices_of_columns(transformer)):
            place = f"{path}/{k}"
            chosen = (*before, *choice)
            yield from statistics_by_path(step, states, path=place, before=chosen)
    elif needs_told(transformer):
        yield path, (*before, as_tree(transformer))


def _choices_of_columns(
    transformer: FeatureUnion | ColumnTransformer,
) -> list[tuple[Step, tuple]]:
    """Return the branches side by side, and what says which columns each takes."""
    if isinstance(transformer, FeatureUnion):
        return [(step, ()) for _, step in transformer.transformer_list]
    branches = [
        (step, (_columns_as_json(columns),))
        for _, step, columns in transformer.transformers
    ]
    # The remainder is what none of them takes.
    choices = [choice for _, choice in branches]
    return [*branches, (transformer.remainder, (choices,))]


def needs_told(step: BaseEstimator) -> bool:
    """Report whether a step is fitted to what nodes tell, and not to agreed bounds."""
    return KINDS[type(step)].statistic_for(step) not in (None, EXTREMES)


def _told_states(step: Step, states: Mapping[str, Mapping], *, path: str) -> list:
    """Return states, by paths within a step, that come from what nodes told."""
    return [
        (place.removeprefix(path), states[place])
        for place, leaf in steps_by_path(step, path)
        if place in states and needs_told(leaf)
    ]


def n_steps_of_rows(transformer: Step) -> int:
    """Steps one after the other that are fitted to what nodes tell of their rows."""
    if transformer is None or isinstance(transformer, str):
        return 0
    if isinstance(transformer, Pipeline):
        return sum(n_steps_of_rows(step) for _, step in transformer.steps)
    if isinstance(transformer, ColumnTransformer):
        branches = [step for _, step, _ in transformer.transformers]
        return max(map(n_steps_of_rows, [*branches, transformer.remainder]))
    if isinstance(transformer, FeatureUnion):
        return max(n_steps_of_rows(step) for _, step in transformer.transformer_list)
    return int(KINDS[type(transformer)].statistic_for(transformer) is not None)


# ---- checks --------------------------------------------------------------------------


def check_tree(transformer: Step, depth: int = 0, *, sees_rows: bool = True) -> None:
    """Raise NotPooledError unless a transformer can be fitted without rows.

    ``sees_rows``: whether it gets columns of the rows as they are at the nodes.
    """
    if depth > _DEEPEST:
        raise NotPooledError(f"steps are nested more than {_DEEPEST} deep.")
    if is_passthrough(transformer) or is_dropped(transformer):
        return
    if isinstance(transformer, Pipeline):
        for k, (_, step) in enumerate(transformer.steps):
            check_tree(step, depth + 1, sees_rows=sees_rows and k == 0)
    elif isinstance(transformer, ColumnTransformer):
        _check_column_transformer(transformer, depth, sees_rows=sees_rows)
    elif isinstance(transformer, FeatureUnion):
        _check_no_weights(transformer)
        for _, step in transformer.transformer_list:
            check_tree(step, depth + 1, sees_rows=sees_rows)
    else:
        _check_step(transformer)


def _check_column_transformer(
    transformer: ColumnTransformer, depth: int, *, sees_rows: bool
) -> None:
    _check_no_weights(transformer)
    if not transformer.transformers:
        raise NotPooledError(
            "a ColumnTransformer in a front has no transformers. List at least one; "
            "columns that are to stay as they are can have 'passthrough'."
        )
    for name, step, columns in transformer.transformers:
        _check_choice_of_columns(name, columns, sees_rows=sees_rows)
        check_tree(step, depth + 1, sees_rows=sees_rows)
    check_tree(transformer.remainder, depth + 1, sees_rows=False)


def _check_no_weights(transformer: ColumnTransformer | FeatureUnion) -> None:
    if transformer.transformer_weights is not None:
        raise NotPooledError(f"{type(transformer).__name__} cannot have weights.")


def _check_step(step: BaseEstimator) -> None:
    """Raise NotPooledError for a step of no kind, or of parameters that need rows."""
    if type(step) not in KINDS:
        raise NotPooledError(
            f"{type(step).__name__} is not a function of sums, so it cannot be fitted "
            "without rows at one place. These can: "
            f"{', '.join(sorted(_KINDS_BY_NAME))}, in Pipeline, ColumnTransformer and "
            "FeatureUnion. Instead of Nystroem use RandomFeatures or RBFSampler."
        )
    KINDS[type(step)].check(step)
    step._validate_params()


def _check_choice_of_columns(name: str, columns: Any, *, sees_rows: bool) -> None:
    """Raise NotPooledError for columns of a branch that nodes could take otherwise."""
    if isinstance(columns, ColumnsOf):
        if sees_rows:
            return
        raise NotPooledError(
            f"columns of {name!r} are {columns!r}, which chooses among the columns of "
            "the rows, but another step comes before. Make the ColumnTransformer the "
            "first step."
        )
    if callable(columns) or isinstance(columns, (str, int, slice)):
        raise NotPooledError(
            f"columns of {name!r} must be a list of names or places, or "
            "ColumnsOf('numbers') or ColumnsOf('texts') of skgems.steps, so that all "
            f"nodes use the same columns; got {columns!r}."
        )


def check_takes_any_columns(transformer: Step) -> None:
    """Raise NotPooledError for steps that cannot do without columns of their rows."""
    if isinstance(transformer, Pipeline):
        for _, step in transformer.steps:
            check_takes_any_columns(step)
    elif isinstance(transformer, FeatureUnion):
        for _, step in transformer.transformer_list:
            check_takes_any_columns(step)
    elif isinstance(transformer, ColumnTransformer) and _chooses_by_content(
        transformer
    ):
        for _, step, _ in transformer.transformers:
            check_takes_any_columns(step)
    elif isinstance(transformer, ColumnTransformer | Backbone):
        raise NotPooledError(
            "drop_identifiers leaves columns out before all steps, but "
            f"{type(transformer).__name__} needs the columns that it was made for. Set "
            "drop_identifiers=False, and list the columns that are to be kept; or "
            "choose them by ColumnsOf of skgems.steps."
        )


def _chooses_by_content(transformer: ColumnTransformer) -> bool:
    """Report whether each branch takes columns by content, not by their places."""
    return all(
        isinstance(columns, ColumnsOf)
        and all(isinstance(column, str) for column in columns.without)
        for _, _, columns in transformer.transformers
    )


def check_states(transformer: Step, states: Mapping[str, Mapping]) -> None:
    """Raise ValueError for states that are not those of the steps at their paths."""
    steps = dict(steps_by_path(transformer))
    for path, state in states.items():
        if path not in steps:
            raise ValueError(f"it has a state at {path!r:.40}, where there is no step")
        KINDS[type(steps[path])].check_state(steps[path], state)


# ---- to JSON -------------------------------------------------------------------------


def as_tree(transformer: Step) -> dict | str:
    """A transformer as JSON has it: kinds, and parameters that are not defaults."""
    if transformer is None or isinstance(transformer, str):
        return transformer or "passthrough"
    kind = type(transformer).__name__
    if isinstance(transformer, Pipeline):
        return {"kind": kind, "steps": _named_trees(transformer.steps)}
    if isinstance(transformer, FeatureUnion):
        return {"kind": kind, "steps": _named_trees(transformer.transformer_list)}
    if isinstance(transformer, ColumnTransformer):
        return _tree_of_column_transformer(transformer)
    if isinstance(transformer, Backbone):
        return {"kind": kind, "params": {"net": transformer.digest_}}
    defaults = type(transformer)().get_params(deep=False)
    params = {
        name: _as_json(value)
        for name, value in transformer.get_params(deep=False).items()
        if repr(value) != repr(defaults[name])
    }
    return {"kind": kind, "params": params}


def _named_trees(named_steps: Sequence[tuple[str, Step]]) -> list[list]:
    return [[name, as_tree(step)] for name, step in named_steps]


def _tree_of_column_transformer(transformer: ColumnTransformer) -> dict:
    return {
        "kind": type(transformer).__name__,
        "steps": [
            [name, as_tree(step), _columns_as_json(columns)]
            for name, step, columns in transformer.transformers
        ],
        "remainder": as_tree(transformer.remainder),
        **{name: getattr(transformer, name) for name in _COLUMN_PARAMS},
    }


def _columns_as_json(columns: ColumnsOf | Sequence) -> dict | list:
    if isinstance(columns, ColumnsOf):
        return columns._as_content()
    return np.asarray(columns).tolist()


def _as_json(value: object) -> Any:
    """The value of a parameter; NotPooledError if it is none that JSON can have."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, type):  # the dtype of an encoder
        return np.dtype(value).name
    if isinstance(value, float) and np.isnan(value):
        return {"is": "nan"}
    if isinstance(value, tuple):
        return {"tuple": [_as_json(element) for element in value]}
    if isinstance(value, list):
        return [_as_json(element) for element in value]
    if isinstance(value, bool | int | float | str | None):
        return value
    raise NotPooledError(f"the parameter {value!r:.80} cannot be sent.")


# ---- from JSON -----------------------------------------------------------------------


def from_tree(tree: Any, depth: int = 0) -> Step:
    """The unfitted transformer of a tree, of known kinds only; not checked.

    What is no tree raises ValueError, TypeError, KeyError or AttributeError.
    """
    if depth > _DEEPEST:
        raise ValueError(f"steps are nested more than {_DEEPEST} deep.")
    if isinstance(tree, str) and tree in _WORDS:
        return tree
    if not isinstance(tree, Mapping) or not isinstance(tree.get("kind"), str):
        raise ValueError(f"{tree!r:.40} stands where a step should, and has no kind")
    kind = tree["kind"]
    if kind == "Pipeline":
        return Pipeline(_named_steps(tree.get("steps"), depth))
    if kind == "FeatureUnion":
        return FeatureUnion(_named_steps(tree.get("steps"), depth))
    if kind == "ColumnTransformer":
        return _column_transformer_of(tree, depth)
    return _single_step_of(tree, kind)


def _single_step_of(tree: Mapping, kind: str) -> Step:
    """Return the unfitted step of a tree that contains no other steps."""
    if kind not in _KINDS_BY_NAME:
        raise ValueError(f"a front cannot contain the transformer {kind!r:.40}.")
    if not isinstance(tree.get("params"), Mapping):
        raise ValueError(f"the step {kind} has no parameters by name")
    params = {name: _from_json(value) for name, value in tree["params"].items()}
    return _KINDS_BY_NAME[kind](**params)


def _named_steps(named_trees: Any, depth: int) -> list[tuple[str, Step]]:
    return [
        (name, from_tree(tree, depth + 1))
        for name, tree in _entries(named_trees, form=("name", "step"))
    ]


def _entries(entries: Any, *, form: tuple[str, ...]) -> list:
    """The entries of a list of steps; ValueError for those of another form."""
    if not isinstance(entries, list | tuple):
        raise ValueError(f"steps are {entries!r:.40}, not a list")
    for entry in entries:
        is_sequence = isinstance(entry, list | tuple) and len(entry) == len(form)
        if not is_sequence or not isinstance(entry[0], str):
            raise ValueError(
                f"steps have the entry {entry!r:.40}, which is not {' and '.join(form)}"
            )
    return list(entries)


def _column_transformer_of(tree: Mapping, depth: int) -> ColumnTransformer:
    branches = [
        (name, from_tree(step, depth + 1), _columns_from_json(columns))
        for name, step, columns in _entries(
            tree.get("steps"), form=("name", "step", "columns")
        )
    ]
    missing = [name for name in ("remainder", *_COLUMN_PARAMS) if name not in tree]
    if missing:
        raise ValueError(f"the step ColumnTransformer lacks {missing[0]!r}")
    return ColumnTransformer(
        branches,
        remainder=from_tree(tree["remainder"], depth + 1),
        **{name: tree[name] for name in _COLUMN_PARAMS},
    )


def _columns_from_json(columns: Any) -> Any:
    return ColumnsOf._from_content(columns) if isinstance(columns, Mapping) else columns


def _from_json(value: Any) -> Any:
    """Inverse of `_as_json`; names of dtypes stay texts, which scikit-learn takes."""
    if isinstance(value, dict):
        if value == {"is": "nan"}:
            return np.nan
        if not isinstance(value.get("tuple"), list):
            raise ValueError(f"a parameter is {value!r:.40}")
        return tuple(_from_json(element) for element in value["tuple"])
    if isinstance(value, list):
        return [_from_json(element) for element in value]
    return value


# ---- from a text ---------------------------------------------------------------------


def front_of_text(text: str) -> BaseEstimator:
    """The transformer of "StandardScaler() | PCA(5)", say; nothing in it is run."""
    steps = [_step_of_text(part.strip()) for part in text.split("|")]
    return steps[0] if len(steps) == 1 else make_pipeline(*steps)


def _step_of_text(text: str) -> BaseEstimator:
    try:
        expression = ast.parse(text, mode="eval").body
        if isinstance(expression, ast.Name):
            return _KINDS_BY_NAME[expression.id]()
        kind = _KINDS_BY_NAME[expression.func.id]
        positional = [ast.literal_eval(argument) for argument in expression.args]
        by_name = {
            keyword.arg: ast.literal_eval(keyword.value)
            for keyword in expression.keywords
        }
        return kind(*positional, **by_name)
    except (SyntaxError, KeyError, AttributeError, TypeError, ValueError):
        raise ValueError(
            f"{text!r} is not a transformer of a front. Write StandardScaler, PCA(5) "
            "or others, with | between steps."
        ) from None
