"""The front of tables that nobody has seen: numbers are scaled, texts are encoded."""

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ._columns_of import ColumnsOf


def scaled_numbers() -> Pipeline:
    """A scaler, and 0 for what is missing, which takes one message to the nodes."""
    # Behind the scaler 0 is the mean. An imputer before it would ask nodes for the mean
    # in a message of its own.
    return make_pipeline(
        StandardScaler(), SimpleImputer(strategy="constant", fill_value=0.0)
    )


def encoded_texts() -> OneHotEncoder:
    """A column for each category that nodes tell, and 0 in all for other categories."""
    return OneHotEncoder(handle_unknown="ignore", sparse_output=False)


def auto_front(of_numbers: BaseEstimator | None = None) -> ColumnTransformer:
    """Steps for any table: columns are told apart once the nodes have told theirs.

    ``of_numbers``: what columns of numbers go through; None: they are scaled.
    """
    steps_of_numbers = scaled_numbers() if of_numbers is None else of_numbers
    return ColumnTransformer(
        [
            ("numbers", steps_of_numbers, ColumnsOf("numbers")),
            ("texts", encoded_texts(), ColumnsOf("texts")),
        ]
    )
