"""The server's side: an aggregator and a folder, from which it goes on step by step."""

import os
from collections.abc import Iterable
from numbers import Integral
from operator import attrgetter
from pathlib import Path

import numpy as np

from ..base import BaseAggregator
from ..federation import MIN_ROWS, RepliesMissingError
from ..messages import Agreement, public_key_of
from ._folder import STATE, Folder, exchange_at
from ._methods import as_json, from_json


class Exchange:
    """Fit an aggregator with nodes that are reached by files alone.

    The server's :meth:`step` writes a file for each node into the folder "requests";
    however these get there, each node calls :func:`answer`, which writes a reply; once
    replies are in the folder "replies" the next step goes on, of a server started anew
    too. The model is that of a fit in one process, to the bit.

    Parameters
    ----------
    folder : str or os.PathLike
        Made if it is not there.
    aggregator : aggregator whose `estimators` may be a channel, default=None
        Unfitted; its ``estimators`` are not looked at. None: that of the folder.
    nodes, public_keys, private_key
        Names and keys, as of a :class:`~skgems.channels.Folder`.
    agreement : Agreement, default=None
        What all are to accept. None: that of the folder, or what the aggregator needs.
        Nodes get the folder's "agreement.json" first.
    report : bool, default=False
        Whether one more message asks for ``node_scores_``.
    min_rows : int, default=10
        The bound in the agreement that is made where neither the folder has one nor
        one is given: replies that nodes made under a smaller ``min_rows`` are refused.

    Attributes
    ----------
    aggregator : BaseAggregator
        Unfitted.
    nodes : list of str
    waiting_for : dict of str to Path
        After a step: the request of each node whose reply is missing.
    notes : list of str
        After a step: what was wrong with replies that are asked for again.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> import skgems
    >>> X, y = load_iris(return_X_y=True)
    >>> rows = {"lyon": y < 2, "paris": y > 0}
    >>> agg = skgems.GEMSLogisticAggregator(n_rounds=3, random_state=0)
    >>> exchange = skgems.Exchange(mkdtemp(), agg, nodes=list(rows))
    >>> while (fitted := exchange.step()) is None:
    ...     for name, request in exchange.waiting_for.items():  # at each node
    ...         own_X, own_y = X[rows[name]], y[rows[name]]
    ...         clf = LogisticRegression().fit(own_X, own_y)
    ...         _ = skgems.answer(request, clf, own_X, own_y, name=name)
    >>> fitted.score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        folder,
        aggregator=None,
        *,
        nodes=None,
        public_keys=None,
        private_key=None,
        agreement=None,
        report=False,
        min_rows=MIN_ROWS,
    ) -> None:
        self.waiting_for: dict[str, Path] = {}
        _check_seed(aggregator)
        state = None if aggregator is None else as_json(aggregator)
        place = Path(folder) / STATE
        if not place.exists() and (aggregator is None or nodes is None):
            raise ValueError(
                f"{place} is not there: a new exchange needs an aggregator and the "
                "names of the nodes."
            )
        self.channel = Folder(
            folder,
            nodes,
            public_keys=public_keys,
            private_key=private_key,
            reports=report,
        )
        with self.channel.alone():
            self.channel.read()
            self._keep_or_compare(state)
            self.aggregator = self._of_folder()
            if aggregator is not None:  # the folder has no layers of a Backbone
                self.aggregator.front = aggregator.front
            if self.channel.agreement is None:
                public_key = None
                if private_key is not None:
                    public_key = public_key_of(private_key).decode()
                self.channel.agreement = agreement or Agreement.of(
                    self.aggregator,
                    nodes=self.nodes,
                    min_rows=min_rows,
                    public_key=public_key,
                )
            elif agreement not in (None, self.channel.agreement):
                raise ValueError(f"{folder}: all have agreed on something else here.")

    def _keep_or_compare(self, state: dict | None) -> None:
        """Write the aggregator's state into a new folder; compare it with an old one's.

        A seed that is None is drawn once: what is computed anew in each step must be
        the same.
        """
        place = self.folder / STATE
        kept = self.channel.aggregator
        if kept is not None:
            self._of_folder()  # another version may have written what this one lacks
        if state is None:
            if kept is None:
                raise ValueError(f"{place}: it has no aggregator; give one.")
            return
        if state["params"]["random_state"] is None:
            if kept is None:
                seed = int(np.random.default_rng().integers(2**31 - 1))
            else:
                seed = kept["params"]["random_state"]
            state["params"]["random_state"] = seed
        if kept is None:
            self.channel.aggregator = state
            return
        for name in ("method", "params"):
            if state[name] != kept[name]:
                raise ValueError(
                    f"{place}: this exchange has begun with another {name}: "
                    f"{kept[name]!r}, not {state[name]!r}. Take another folder."
                )

    folder = property(attrgetter("channel.path"))
    nodes = property(attrgetter("channel.names"))
    notes = property(attrgetter("channel.notes"))

    def step(self, *, leave_out: Iterable[str] = ()) -> BaseAggregator | None:
        """Go on as far as replies allow.

        Parameters
        ----------
        leave_out : iterable of str, default=()
            Nodes without which the waiting message goes on, for good: at all, where it
            is the first, or one that needs a reply of all.

        Returns
        -------
        fitted : aggregator or None
            None: replies are missing, see ``waiting_for``.

        Raises
        ------
        ValueError
            If a reply is wrong, by file and field; or a node cannot be left out.
        """
        with self.channel.alone():
            self.channel.notes = []
            self.channel.read()  # another server may have left nodes out
            leave_out = set(leave_out)
            unknown = sorted(leave_out - set(self.nodes))
            if unknown:
                raise ValueError(f"{unknown} are no nodes; nodes are {self.nodes}.")
            try:
                fitted = self._of_folder().set_params(estimators=self.channel).fit()
            except RepliesMissingError as missing:
                self.waiting_for = missing.requests
            else:
                self.waiting_for = {}
                return fitted
            waiting = leave_out & set(self.waiting_for)
            if not waiting:
                return None
            self.channel.leave_out(sorted(waiting), self.waiting_for)
            return self.step(leave_out=leave_out - waiting)

    def _of_folder(self) -> BaseAggregator:
        with exchange_at(self.channel.path / STATE):
            return from_json(self.channel.aggregator)

    def __repr__(self) -> str:
        kind = type(self.aggregator).__name__
        return f"Exchange({os.fspath(self.folder)!r}, {kind}, nodes={self.nodes})"


def _check_seed(aggregator: BaseAggregator | None) -> None:
    """Raise ValueError for a generator, which a folder cannot keep."""
    seed = getattr(aggregator, "random_state", None)
    if seed is not None and not isinstance(seed, Integral):
        raise ValueError(f"random_state must be a number or None, got {seed!r}.")
