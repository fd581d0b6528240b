"""The server's side: an aggregator and a folder, from which it goes on step by step."""

import os
from collections.abc import Iterable
from numbers import Integral
from operator import attrgetter
from pathlib import Path

import numpy as np

from ..asking import RepliesMissingError
from ..base import BaseAggregator
from ..disclosure import disclosure_of
from ..messages import Agreement, public_key_of
from ._folder import STATE, Folder, exchange_at
from ._methods import as_json, from_json


class Exchange:
    """Fit an aggregator with nodes that are reached by files alone.

    Each call of the server's :meth:`step` writes one request file per node into the
    folder "requests". The files may travel to the nodes in any way. Each node calls
    :func:`answer`, which writes a reply file. When the replies are back in the folder
    "replies", the next call of :meth:`step` continues. The server may be restarted
    between two steps. The model is the same, to the bit, as that of a fit in one
    process.

    Parameters
    ----------
    folder : str or os.PathLike
        Folder of the exchange. It is created if it does not exist. Give the folder of
        an earlier exchange to continue that exchange.
    aggregator : aggregator whose `estimators` may be a channel, default=None
        The unfitted aggregator. Its parameter ``estimators`` is ignored. If None, the
        aggregator that is kept in the folder is used; a new folder needs one.
    nodes : list of str, default=None
        Names of the nodes. If None, the names that are kept in the folder are used; a
        new folder needs them.
    public_keys : dict of str to path or bytes, default=None
        Public ed25519 key of each node, by its name. If given, every node needs one,
        and an unsigned reply is refused. Set it where replies could be replaced on
        their way.
    private_key : str or os.PathLike, default=None
        File of the server's private key, made by
        :func:`~skgems.guard.signing_keys`. If given, requests are signed, and a
        new agreement contains the public key.
    agreement : Agreement, default=None
        What all parties are asked to accept. If None, the agreement in the folder is
        used, or a new one that allows just what the aggregator needs. It is saved as
        "agreement.json" in the folder; send this file to the nodes first.
    report : bool, default=False
        Whether the nodes are asked how good the aggregate is on their rows. One more
        message is for ``node_scores_``, and one for ``evaluation_``.
    disclosure : Disclosure, "auto" or None, default="auto"
        Rule of the agreement that is made if there is none yet: the server refuses
        replies that were made under a laxer one.

    Attributes
    ----------
    aggregator : BaseAggregator
        The unfitted aggregator.
    nodes : list of str
        Names of the nodes.
    waiting_for : dict of str to Path
        After a step, the request file of each node whose reply is missing.
    notes : list of str
        After a step, what was wrong with replies that are asked for again.

    Raises
    ------
    ValueError
        If a new folder is given without an aggregator or without names. Also if the
        folder holds an exchange with other nodes, parameters or another agreement, or
        if another server is working in it.

    See Also
    --------
    answer : The node's side.
    skgems.guard.inspect : Says in words what a file contains.

    Notes
    -----
    If ``random_state`` of the aggregator is None, a seed is drawn once and kept in the
    folder, since every step has to compute the same. A random generator is refused.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> import skgems
    >>> X, y = load_iris(return_X_y=True)
    >>> rows = {"lyon": y < 2, "paris": y > 0}
    >>> agg = skgems.GEMSLogisticAggregator(n_rounds=2, random_state=0)
    >>> folder = Path(mkdtemp())
    >>> exchange = skgems.Exchange(folder / "work", agg, nodes=list(rows))
    >>> while (fitted := exchange.step()) is None:
    ...     for name, request in exchange.waiting_for.items():  # at each node
    ...         X_node, y_node = X[rows[name]], y[rows[name]]
    ...         clf = LogisticRegression().fit(X_node, y_node)
    ...         state = folder / f"ledger of {name}"
    ...         _ = skgems.answer(request, clf, X_node, y_node, name=name, state=state)
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
        disclosure="auto",
    ) -> None:
        self.waiting_for: dict[str, Path] = {}
        disclosure_of(disclosure)  # raises for other values
        if aggregator is not None:
            aggregator._validate_params()
        _check_seed(aggregator)
        state = None if aggregator is None else as_json(aggregator)
        place = Path(folder) / STATE
        if not place.exists() and (aggregator is None or nodes is None):
            raise ValueError(
                f"{place} does not exist: a new exchange needs an aggregator and the "
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
            self.aggregator = self._aggregator_of_folder()
            if aggregator is not None:  # the folder has no layers of a Backbone
                self.aggregator.front = aggregator.front
            if self.channel.agreement is None:
                self.channel.agreement = agreement or self._new_agreement(
                    private_key, disclosure=disclosure
                )
            elif agreement not in (None, self.channel.agreement):
                raise ValueError(
                    f"{folder}: the agreement in this folder is another one. Use "
                    "another folder."
                )

    def _new_agreement(
        self, private_key: bytes | None, *, disclosure: object
    ) -> Agreement:
        """Make the agreement on the aggregator, for these nodes."""
        public_key = None
        if private_key is not None:
            public_key = public_key_of(private_key).decode()
        return Agreement.of(
            self.aggregator,
            nodes=self.nodes,
            disclosure=disclosure,
            public_key=public_key,
        )

    def _keep_or_compare(self, state: dict | None) -> None:
        """Write the aggregator's state into a new folder; compare it with an old one's.

        A seed that is None is drawn once: what is computed anew in each step must be
        the same.
        """
        place = self.folder / STATE
        kept = self.channel.aggregator
        if kept is not None:
            self._aggregator_of_folder()  # it may be of another version
        if state is None:
            if kept is None:
                raise ValueError(
                    f"{place}: it does not say which aggregator to fit. Pass the "
                    "aggregator."
                )
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
                    f"{kept[name]!r}, not {state[name]!r}. Use another folder."
                )

    folder = property(attrgetter("channel.path"))
    nodes = property(attrgetter("channel.names"))
    notes = property(attrgetter("channel.notes"))

    def step(self, *, leave_out: Iterable[str] = ()) -> BaseAggregator | None:
        """Continue the fit as far as the replies allow.

        After a stop, the fit begins anew and finds the replies in the folder, each by
        the digest of its request.

        Parameters
        ----------
        leave_out : iterable of str, default=()
            Nodes to continue without if their reply to the current message is missing.
            This cannot be undone. A node that is left out of the first message, or of a
            message that needs a reply from all, takes no part at all.

        Returns
        -------
        fitted : aggregator or None
            The fitted aggregator, or None while replies are missing; ``waiting_for``
            lists these.

        Raises
        ------
        ValueError
            If a reply is wrong; the text names its file and field. Also if a node
            cannot be left out.
        """
        with self.channel.alone():
            self.channel.notes = []
            self.channel.read()  # another server may have left nodes out
            leave_out = set(leave_out)
            unknown = sorted(leave_out - set(self.nodes))
            if unknown:
                raise ValueError(
                    f"{unknown} are not nodes of this exchange; its nodes are "
                    f"{self.nodes}."
                )
            try:
                fitted = (
                    self._aggregator_of_folder()
                    .set_params(estimators=self.channel)
                    .fit()
                )
                if self.channel.reports:
                    self._evaluate(fitted)
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

    def _evaluate(self, fitted: BaseAggregator) -> None:
        """Ask the nodes how good the model is; a note says why if it cannot be asked.

        RepliesMissingError while nodes have not answered.
        """
        try:
            fitted.evaluate()
        except (TypeError, ValueError) as reason:
            self.notes.append(f"The model was not judged by site: {reason}")

    def _aggregator_of_folder(self) -> BaseAggregator:
        """Read the aggregator again that the folder's state holds."""
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
