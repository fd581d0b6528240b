"""What a node with a linear model sends, all in one message."""

from collections.abc import Mapping
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from ..federation import (
    MIN_ROWS,
    MOST_GRIDS,
    SummarizingMixin,
    Summary,
    warn_of_tails,
    warn_of_variances,
)
from ..local import Member, as_class_weight, closed_form
from ..messages import Message
from ..moments import moments_kind
from ..progress import shown
from ._parameters import with_objects_of_settings
from ._regions import merged_summary

# Settings without which requests cannot be made.
_NEEDED_SETTINGS = ("geometry", "criterion", "construction", "class_weight")
# What the arrays of moments may be sent as.
_DTYPES = ("float64", "float32", "float16")


class LinearSummariesMixin(SummarizingMixin):
    """Mixin of GEMSLogisticAggregator: what it asks a node before it knows others."""

    @shown
    def summarize(
        self,
        estimator,
        X=None,
        y=None,
        *,
        name,
        chunks=None,
        held_out=None,
        min_rows=MIN_ROWS,
        classes=None,
        space="auto",
        dtype="float64",
        rank=None,
    ) -> Summary:
        """Make all that a node sends, at the node.

        The aggregator needs no ``estimators``, and is not changed. Fitted on summaries
        it is what it would be with all rows at one place, to the bit. Nodes and server
        must agree on `spaces` (but for what is done if they do not intersect),
        `moments`, `class_weight` and `random_state`.

        Parameters
        ----------
        estimator, X, y, name, held_out, min_rows
            The node's own, as for :func:`~skgems.federation.reply_to`.
        chunks : callable, default=None
            In place of X, y and ``held_out``, where rows do not fit (:ref:`many_rows`):
            called twice, it iterates over the same ``(X, y)`` or ``(X, y, held_out)``.
        classes : array-like, default=None
            Classes of all nodes, where they are known: less is sent then. Needed for
            ``spaces=Spaces(criterion="log_loss")``, which counts them.
        space : "auto" or bool, default="auto"
            Whether to send the good-enough space, n_features^2 numbers with
            ``spaces="gram"``, for `epsilon` and `intersection`. "auto": if needed.
        dtype : {"float64", "float32", "float16"}, default="float64"
            Of moments as sent: fewer digits are fewer bytes.
        rank : int, default=None
            Of scatter matrices as sent: so many numbers a feature. None: sent whole.

        Returns
        -------
        summary : Summary
            To be saved and sent.

        Raises
        ------
        TooFewRowsError
            A ValueError, if there are too few rows of every class.
        ValueError
            If the classifier is not fitted, rows are not as it knows them, the method
            asks more than one message, chunks differ the second time, or a space is
            asked of them; chunks are named by number, from 0.

        Warns
        -----
        ClassesLeftOutWarning
            If classes are left out; it names them.
        RowsExposedWarning
            If covariances show single rows: these are fewer than the features.
        ClassWeightWarning, HeavyTailsWarning, VariancesOnlyWarning
            Where the sums do not hold what a pooled model would be made of.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from skgems import GEMSLogisticAggregator
        >>> X, y = load_iris(return_X_y=True)
        >>> agg = GEMSLogisticAggregator(random_state=0)
        >>> rows = {"lyon": y < 2, "paris": y > 0}
        >>> sent = [agg.summarize(None, X[o], y[o], name=k) for k, o in rows.items()]
        >>> agg.set_params(estimators=sent).fit().score(X, y) > 0.9
        True
        """
        if dtype not in _DTYPES:
            raise ValueError(f"dtype must be one of {_DTYPES}, got {dtype!r}.")
        if rank is not None and not (isinstance(rank, Integral) and rank > 0):
            raise ValueError(f"rank must be a number of at least 1, got {rank!r}.")
        return self._summarize(
            estimator,
            rows={"X": X, "y": y, "chunks": chunks, "held_out": held_out},
            name=name,
            min_rows=min_rows,
            digits={"dtype": dtype, "rank": None if rank is None else int(rank)},
            classes=classes,
            space=space,
        )

    def _merged(self, summaries: list, name: str) -> Summary:
        self._check_one_message()
        if self.intersection != "likelihood" or not isinstance(self.node_weight, str):
            raise ValueError(
                "Summaries are merged by intersection='likelihood' and without weights "
                f"of nodes; got intersection={self.intersection!r}, "
                f"node_weight={self.node_weight!r}."
            )
        return merged_summary(self, summaries, name)

    def _warn_of(self, member: Member) -> None:
        estimator = member.picklable.estimator
        if self.intersection != "likelihood" or "kind" in closed_form(estimator):
            return
        warn_of_tails([member])
        if self._checked_moments.kind == "auto":
            n_features = member.X.shape[1]
            n_rows = member.row_counts()[1]["moments"].sum()
            # Whether it is "diagonal" does not depend on the number of classes.
            if moments_kind("auto", n_features, 1, n_rows) == "diagonal":
                warn_of_variances(n_features)

    def _node_settings(self) -> dict:
        seed = self.random_state
        if seed is not None and not isinstance(seed, Integral):
            raise ValueError(
                "random_state must be a number or None where nodes summarize, so that "
                f"all draw the same; got {seed!r}."
            )
        moments_settings = self._moments_settings()
        spaces = self._checked_spaces
        return {
            **self._parts(),
            "construction": spaces.construction.for_nodes(),
            "scale_logits": spaces.scale_logits,
            # By flat names, whatever objects parameters are in. The penalty, of which
            # these say nothing, is always asked for.
            "moments": moments_settings["kind"],
            "random_state": None if seed is None else int(seed),
            "n_components": moments_settings["n_components"],
            "min_cluster_size": moments_settings["min_cluster_size"],
            "class_weight": moments_settings["class_weight"],
        }

    def _further_settings(self) -> dict:
        return {
            "space": self._sends_space,
            "later_space": self._asks_for_spaces_later,
        }

    @property
    def _sends_space(self) -> bool:
        """Whether the first message asks for good-enough spaces."""
        return self._needs_spaces and self._rounds.n == 1

    @classmethod
    def _of_settings(
        cls, settings: Mapping, further_settings: Mapping
    ) -> "LinearSummariesMixin":
        for name in _NEEDED_SETTINGS:
            if name not in settings:
                raise KeyError(name)
        parameters = with_objects_of_settings(settings)
        parameters.pop("front", None)
        # Any level will do: that there is one is what requests depend on.
        sends_space = further_settings.get("space", False)
        has_level = sends_space or further_settings.get("later_space", False)
        aggregator = cls(
            **parameters,
            epsilon=0.5 if has_level else "auto",
            n_rounds=1 if sends_space else 2,
        )
        aggregator._validate_params()
        return aggregator

    def _parts(self) -> dict:
        """Geometry and criterion, for JSON."""
        spaces = self._checked_spaces
        return {
            "geometry": spaces.geometry.as_settings(),
            "criterion": spaces.criterion.as_settings(),
        }

    def _check_one_message(self) -> None:
        if self._rounds.n > 1:
            raise ValueError(
                f"n_rounds={self.n_rounds!r} asks nodes more than once; set "
                "n_rounds=1, or use skgems.Exchange."
            )

    def _first_requests(
        self,
        *,
        member: Member | None = None,
        classes: ArrayLike | None = None,
        space: str | bool = "auto",
    ) -> list[Message]:
        """What is asked of a node, or of all nodes where no ``member`` is given.

        ``classes`` are those of all nodes, if they are known; ``space`` says whether
        spaces are asked for, by default where they are needed.
        """
        seed = self._seed()
        requests = [self._moments_request()]
        if not (self._sends_space if space == "auto" else space):
            return requests
        numbers_of_others = self._numbers_of_others(member, classes)
        if not numbers_of_others:
            return requests
        spaces = self._checked_spaces
        scalings = [bool(spaces.scale_logits)]
        if spaces.scale_logits == "auto" and not spaces.geometry.in_logits:
            # The sizes of all nodes' logits decide, so that both are sent.
            scalings = [True, False]
            requests.append(Message.of("size", model="own"))
        for is_scaled in scalings:
            for n_others in numbers_of_others:
                requests.append(
                    Message.of(
                        "space",
                        model="own",
                        **self._space_settings(seed),
                        n_others=n_others,
                        scale_logits=is_scaled,
                    )
                )
        return requests

    def _numbers_of_others(
        self, member: Member | None, classes: ArrayLike | None
    ) -> list[int]:
        """Numbers of classes that a node may not have seen, for each of which it tells.

        They are none where a further message can say how many there are.
        """
        criterion = self._checked_spaces.criterion
        if classes is not None and member is not None:
            known_classes = member.own_linear()[1]
            n_others = len(set(np.asarray(classes).tolist()) - set(known_classes))
            return [n_others if criterion.counts_classes else min(n_others, 1)]
        if not criterion.counts_classes:
            return [0, 1]  # whether there are any is all that is asked
        if member is None:
            return []
        raise ValueError(
            f"criterion={criterion.name!r} of spaces counts the classes of all nodes: "
            "give summarize all of them, classes=[...]."
        )

    def _later_requests(self) -> list[Message]:
        """Those for spaces, where these wait for what other nodes have."""
        if not self._asks_for_spaces_later:
            return []
        return [
            Message.of("size", model="own"),
            Message.of("space", model="own", **self._space_settings(self._seed())),
        ]

    @property
    def _asks_for_spaces_later(self) -> bool:
        return self._needs_spaces or "consensus" in self._rounds.candidates

    def _asks_at_most(self, n_hidden_layers: int) -> dict[str, int]:
        most_requests = {"evaluate": self._rounds.n - 1, "score": 1}
        if self._asks_for_spaces_later:
            most_requests["size"] = 1
            most_requests["space"] = 1
        if self.intersection != "likelihood":
            most_requests["evaluate"] += MOST_GRIDS
        return most_requests

    def _moments_request(self) -> Message:
        return Message.of("moments", model="own", **self._moments_settings())

    def _moments_settings(self) -> dict:
        """What all nodes are asked of their rows, as requests have it."""
        class_weight = self.class_weight
        pairs = class_weight.items() if isinstance(class_weight, dict) else ()
        unusable = {
            label: weight
            for label, weight in pairs
            if not (isinstance(weight, Real) and 0 < weight < np.inf)
        }
        if unusable:
            raise ValueError(
                f"class_weight must hold finite numbers above 0, got {unusable!r}. To "
                "leave a class out, leave its rows out."
            )
        moments = self._checked_moments
        return {
            "kind": moments.kind,
            "n_components": int(moments.n_components),
            "min_cluster_size": int(moments.min_cluster_size),
            "class_weight": as_class_weight(class_weight),
            # Whatever C is here, so that it can be changed without asking again.
            "penalty": True,
        }

    def _space_settings(self, seed: int | None) -> dict:
        """What all nodes are asked of their spaces, as requests have it."""
        construction = self._checked_spaces.construction
        return {
            **self._parts(),
            "construction": construction.wire_name,
            "n_directions": int(construction.n_directions),
            "seed": seed,
            "min_cluster_size": int(self._checked_moments.min_cluster_size),
        }
