"""A front of documents: a vectorizer that learns nothing from rows.

It hashes words to columns, so that all nodes have the same one without a message. Its
parameters travel, and a node takes those only that cannot keep it busy for long or have
it read files.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import joblib
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, clone
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import Pipeline

from ._bins import Cells, JoinedBins
from ._columns import Columns, ColumnsError
from ._documents import Documents, are_documents, as_documents
from ._front import Front, thawed
from ._kind import NotPooledError

# Columns that hashes may lead to, at most: scikit-learn's default.
_MOST_FEATURES = HashingVectorizer().n_features
# Words, or characters, that one feature may be made of: a request that asks for more
# would keep a node busy for long.
_MOST_IN_A_ROW = 10
# Those of a front in a message, of which a vectorizer needs the first alone.
_FIELDS = {"tree", "bounds", "states", "columns", "fitted"}
# Documents have no columns: all that is known of them is that they are no numbers.
_NO_COLUMNS = Columns(n=None, names=None, text=(True,), dtype="float64")


def _is_size(value: object) -> bool:
    return isinstance(value, Integral) and 1 <= value <= _MOST_FEATURES


def _is_range(value: object) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(isinstance(n, Integral) for n in value)
        and 1 <= value[0] <= value[1] <= _MOST_IN_A_ROW
    )


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _one_of(*words: str) -> Callable[[object], bool]:
    """A check that a value is one of some words, or None."""
    return lambda value: value is None or (isinstance(value, str) and value in words)


@dataclass(frozen=True, kw_only=True)
class _Vectorizer:
    """A class of vectorizers, and what values its parameters may have."""

    type_: type
    # By parameter that can be sent, whether a value of it is allowed.
    allows: Mapping[str, Callable[[object], bool]]


# Vectorizers by name. Parameters that are not listed stay as they are by default:
# functions cannot be sent, a pattern of words may take for ever on some texts, and
# input="filename" would read files of the node.
_KINDS: Mapping[str, _Vectorizer] = {
    "HashingVectorizer": _Vectorizer(
        type_=HashingVectorizer,
        allows={
            "n_features": _is_size,
            "ngram_range": _is_range,
            "analyzer": _one_of("word", "char", "char_wb"),
            "stop_words": _one_of("english"),
            "strip_accents": _one_of("ascii", "unicode"),
            "norm": _one_of("l1", "l2"),
            "lowercase": _is_bool,
            "binary": _is_bool,
            "alternate_sign": _is_bool,
        },
    ),
    "FeatureHasher": _Vectorizer(
        type_=FeatureHasher,
        allows={
            "n_features": _is_size,
            "input_type": _one_of("dict", "pair", "string"),
            "alternate_sign": _is_bool,
        },
    ),
}


@dataclass(frozen=True, eq=False)
class DocumentFront(Front):
    """A vectorizer that is the same at all nodes without a message."""

    @classmethod
    def from_vectorizer(cls, transformer: BaseEstimator) -> "DocumentFront":
        """Make the front of a vectorizer; NotPooledError if it learns from rows."""
        kind = type(transformer).__name__
        if kind not in _KINDS or type(transformer) is not _KINDS[kind].type_:
            raise NotPooledError(
                f"{kind} learns from rows, so it is not the same at all nodes. A front "
                "for documents is HashingVectorizer, or FeatureHasher for dicts. "
                "EnsembleAggregator lets pipelines vote that begin with any vectorizer."
            )
        allows = _KINDS[kind].allows
        for name, value in _changed_params(transformer).items():
            if name not in allows or not allows[name](value):
                raise NotPooledError(
                    f"front={kind}({name}={value!r:.80}) cannot be sent to nodes. "
                    f"Leave {name} as it is by default; parameters that can be set, to "
                    f"texts and numbers, are {', '.join(allows)}."
                )
        return cls(transformer, columns=_NO_COLUMNS)

    @property
    def kind(self) -> str:
        """The name of the vectorizer's class."""
        return type(self.transformer).__name__

    @property
    def agreed(self) -> dict:
        params = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in _changed_params(self.transformer).items()
        }
        return {"tree": {"kind": self.kind, "params": params}, "bounds": None}

    @property
    def digest(self) -> str:
        return joblib.hash(self.agreed)

    @property
    def asks_nodes(self) -> bool:
        return False

    @property
    def _edged_paths(self) -> list[str]:
        return []

    @property
    def statistics(self) -> dict[str, str]:
        return {}

    @property
    def most_messages(self) -> int:
        return 1

    def as_content(self) -> dict:
        return self.agreed

    @property
    def fitted(self) -> BaseEstimator:
        return clone(self.transformer)

    def rows(self, X: Any) -> Documents:
        """Documents; ColumnsError for rows of numbers or of columns."""
        if not are_documents(X):
            raise ColumnsError(
                f"the front is a {self.kind}, which takes one document per row, but X "
                "is a table or holds numbers. Pass the column of documents only, such "
                "as X['text']."
            )
        return as_documents(X)

    def transform(
        self, X: Any, *, cells: Cells | None = None, joined: JoinedBins | None = None
    ) -> csr_matrix:
        """Return rows of numbers, (n_rows, n_features); words have no bins."""
        documents = self.rows(X)
        try:
            return self.fitted.transform(documents)
        except (ValueError, TypeError, AttributeError):
            # scikit-learn's text may have a value of a row, and a server may see it.
            raise ColumnsError(
                f"some documents are None, NaN or numbers, which {self.kind} does not "
                "take. Leave these rows out, or give them an empty document."
            ) from None

    def rest_of(
        self, member: BaseEstimator, *, name: str = "estimator"
    ) -> BaseEstimator:
        """Return the steps after an equal vectorizer in a pipeline; else the member."""
        pipeline = thawed(member)
        if not isinstance(pipeline, Pipeline) or len(pipeline) < 2:
            return member
        first_step = thawed(pipeline.steps[0][1])
        is_equal = type(first_step) is type(self.transformer) and (
            _changed_params(first_step) == _changed_params(self.transformer)
        )
        return pipeline[1:] if is_equal else member


def _changed_params(vectorizer: BaseEstimator) -> dict:
    """Parameters that are not defaults."""
    defaults = type(vectorizer)().get_params(deep=False)
    params = _with_tuples(vectorizer.get_params(deep=False))
    return {
        name: value
        for name, value in params.items()
        if type(value) is not type(defaults[name]) or not value == defaults[name]
    }


def front_of_content(content: Mapping) -> Front:
    """The front of a message, of documents too; ValueError if it can be none."""
    tree = content.get("tree") if isinstance(content, Mapping) else None
    kind = tree.get("kind") if isinstance(tree, Mapping) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        return Front.from_content(content)
    _check_fields(content)
    allows = _KINDS[kind].allows
    params = tree.get("params", {})
    if not isinstance(params, Mapping) or not params.keys() <= allows.keys():
        raise ValueError(f"is not a front: {kind} has the parameters {sorted(allows)}")
    vectorizer = _KINDS[kind].type_()
    return DocumentFront.from_vectorizer(vectorizer.set_params(**_with_tuples(params)))


def _check_fields(content: Mapping) -> None:
    """Raise ValueError for what a front of documents has not."""
    if content.get("bounds") is not None or content.get("states"):
        raise ValueError("is not a front: a vectorizer has neither bounds nor states")
    if not (content.keys() <= _FIELDS and content["tree"].keys() <= {"kind", "params"}):
        raise ValueError("is not a front: it has fields that a front does not have")


def _with_tuples(params: Mapping) -> dict:
    """Parameters as scikit-learn has them, of which JSON makes lists."""
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in params.items()
    }
