"""A fitted module of torch as arrays by name, for those that are no chain of layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ._network import as_labels


@dataclass(frozen=True, eq=False, kw_only=True)
class ModuleState:
    """Parameters and buffers of a module, without the module that computes with them.

    Whoever has the module can put them into it, and sees by its outputs for rows that
    are made up whether it is the one that they are from.
    """

    # What stands in messages in place of a function of logits.
    output: ClassVar[str] = "module"
    has_classifier: ClassVar[bool] = True

    names: Sequence[str]  # of parameters and buffers, as in a state_dict
    arrays: Sequence[np.ndarray] = field(repr=False)
    outputs: np.ndarray | None = field(repr=False)  # of made-up rows; None: none fit
    classes: np.ndarray  # (n_outputs,), the label of each output
    seen: np.ndarray  # (n_outputs,), bool: the model was fitted on the class
    n_features_in: None = None  # a module does not say
    feature_names_in: None = None

    def as_content(self) -> dict:
        """Return fields of a message."""
        content = {
            "output": self.output,
            "names": list(self.names),
            "arrays": list(self.arrays),
            "labels": self.classes.tolist(),
            "seen": self.seen,
            "n_features": None,
        }
        if self.outputs is not None:
            content["outputs"] = self.outputs
        return content

    @classmethod
    def from_content(cls, content: Mapping) -> "ModuleState":
        return cls(
            names=content["names"],
            arrays=content["arrays"],
            outputs=content.get("outputs"),
            classes=as_labels(content["labels"]),
            seen=content["seen"],
        )
