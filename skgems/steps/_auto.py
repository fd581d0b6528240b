"""The front of tables that nobody has seen: numbers are scaled, texts are encoded."""

from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ._columns_of import ColumnsOf


def scaled_numbers() -> Pipeline:
    """A scaler, and 0 for what is missing, which takes one message to the nodes."""
    # The mean, which an imputer before the scaler would ask nodes for first.
    return make_pipeline(
        StandardScaler(), SimpleImputer(strategy="constant", fill_value=0.0)
    )


def encoded_texts() -> OneHotEncoder:
    """A column for each category that nodes tell, and 0 in all for other categories."""
    return OneHotEncoder(handle_unknown="ignore", sparse_output=False)


def auto_front(of_numbers=None) -> ColumnTransformer:
    """Steps for any table: columns are told apart once the nodes have told theirs.

    ``of_numbers``: what columns of numbers go through; None: they are scaled.
    """
    of_numbers = scaled_numbers() if of_numbers is None else of_numbers
    return ColumnTransformer(
        [
            ("numbers", of_numbers, ColumnsOf("numbers")),
            ("texts", encoded_texts(), ColumnsOf("texts")),
        ]
    )
