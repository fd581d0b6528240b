"""One fitted aggregator of what the nodes have, chosen by rows that did not make it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from operator import itemgetter
from time import perf_counter

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.utils import _safe_indexing, check_random_state

from ..base import BaseAggregator, is_channel, named_members, warn_user
from ..ensembles import EnsembleAggregator
from ..federation import Summary, is_path, owners_of
from ..gems import GEMSLogisticAggregator
from ..networks import final_step, unwrap
from ..steps import as_rows
from ._candidates import Candidate, candidates


@dataclass(frozen=True)
class Choice:
    """What was tried, what was taken, and what to doubt.

    Attributes
    ----------
    name : str
        Of the candidate that was taken.
    table : tuple of dict
        One for each candidate, from the smallest model to the largest: its "name",
        "accuracy" and "log_loss" on rows that did not make it (None where it was not
        tried), the "standard_error" of what the best has more, "looks_at_members", the
        "bytes" that nodes sent, "seconds", and the "error" if it cannot be made.
    n_rows : int
        Rows that judged.
    doubts : tuple of str
        Reasons not to trust it.
    """

    name: str
    table: tuple
    n_rows: int
    doubts: tuple = ()

    @property
    def looks_at_members(self) -> bool:
        """Whether the fitted local estimators are part of what was taken."""
        return next(o["looks_at_members"] for o in self.table if o["name"] == self.name)

    def to_frame(self):
        """The table as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(list(self.table)).set_index("name")

    def __str__(self):
        lines = [
            f"{'':2}{'candidate':26}{'accuracy':>9}{'log-loss':>9}{'MB':>7}{'s':>6}"
        ]
        for own in self.table:
            chosen = "*" if own["name"] == self.name else ""
            line = f"{chosen:2}{own['name']:26}"
            if own["error"]:
                line += f" {own['error'][:60]}"
            elif own["accuracy"] is not None:
                line += f"{own['accuracy']:9.3f}{own['log_loss']:9.3f}"
                line += f"{own['bytes'] / 1e6:7.1f}{own['seconds']:6.1f}"
            lines.append(line)
        return "\n".join([*lines, *(f"Doubt: {own}" for own in self.doubts)])


def combine(
    estimators=None,
    X=None,
    y=None,
    nodes=None,
    *,
    front=None,
    budget="fast",
    verbose=0,
    random_state=None,
) -> BaseAggregator:
    """Make one model of what the nodes have: the best of several, by their rows.

    Each candidate is made of one half of every node's rows and judged by the other, and
    the other way round (with clones of estimators, which know their own rows by heart);
    the smallest within a standard error of the best is made again of all rows.
    Candidates are linear models of the rows, such behind features that all nodes have
    in common, and votes and stacks of the fitted estimators, networks merged too.

    Parameters
    ----------
    estimators : list of classifiers or of (name, classifier) tuples, or None
        Fitted classifiers of any kind, one per node; summaries, their paths or a
        channel. None: nodes have rows alone.
    X : {array-like, DataFrame, sparse matrix} of shape (n_samples, n_features), \
default=None
        Rows of the nodes; with texts and missing values, where they are a DataFrame.
        Without them nothing can be judged: forests and others vote, and summaries and
        channels become a linear model.
    y : array-like of shape (n_samples,), default=None
        Labels.
    nodes : array-like of shape (n_samples,), default=None
        Index or name of the node that owns each row; -1 or "public" for rows of none.
        None: all rows are of one node.
    front : transformer, default=None
        Transformers before all candidates of rows. None: scaled columns; imputers and
        encoders too, where values are missing or texts. Estimators see rows as given.
    budget : {"fast", "thorough"}, default="fast"
        "thorough" tries larger models too, in about three times the time.
    verbose : bool or int, default=0
        Whether to print each candidate's score as it is known.
    random_state : int, RandomState instance or None, default=None
        Source of the halves, and of what candidates draw.

    Returns
    -------
    aggregator : BaseAggregator
        Fitted; its ``choice_`` is the :class:`Choice`.

    Raises
    ------
    ValueError
        If rows or estimators are not usable, or no candidate can be made.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from skgems import combine
    >>> X, y = load_wine(return_X_y=True)
    >>> agg = combine(X=X, y=y, nodes=y // 2, random_state=0)
    >>> agg.score(X, y) > 0.95, agg.choice_.looks_at_members
    (True, False)
    """
    if budget not in ("fast", "thorough"):
        raise ValueError(f"budget is {budget!r}, neither 'fast' nor 'thorough'.")
    if X is None:
        return _without_rows(estimators, random_state)
    X, y = as_rows(X), np.asarray(y)
    if nodes is None:
        nodes = np.zeros(len(y), dtype=int)
    owners, members = owners_of(nodes, X), None
    if estimators is not None:
        members = _members_of(estimators, owners)
    random_state = check_random_state(random_state).randint(2**31 - 1)
    options = {"budget": budget, "random_state": random_state}
    tried = candidates(X, list(owners), members, front, **options)
    halves = _halves(owners, y, random_state)
    if members is not None:
        members = _refitted(members, X, y, owners, halves)
    table, hits = [], []
    for candidate in tried:
        own, hit = _judged(candidate, members, X, y, nodes, halves)
        table.append(own)
        hits.append(hit)
        if verbose:
            print(f"[combine] {Choice('', (own,), 0)}".partition("\n")[2], flush=True)
    place = _smallest_of_the_best(table, hits)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        aggregator = clone(tried[place].aggregator).fit(X, y, nodes=nodes)
    doubts = [str(own.message) for own in caught]
    for own in caught:
        warn_user(str(own.message), own.category)
    n_rows = int(np.sum(halves >= 0))
    if n_rows < 200:
        doubts.insert(0, f"only {n_rows} rows judged")
    judged = [own for own in table if not own["error"]]
    surest = min(judged, key=itemgetter("log_loss"))
    ours, best = table[place]["log_loss"], surest["log_loss"]
    if ours > 2 * best:
        doubts.append(
            f"its probabilities are worse than those of {surest['name']!r}: log-loss "
            f"{ours:.2f} to {best:.2f}"
        )
    doubts = tuple(dict.fromkeys(doubts))
    aggregator.choice_ = Choice(tried[place].name, tuple(table), n_rows, doubts)
    return aggregator


def _is_sent(own) -> bool:
    return isinstance(own, Summary) or is_path(own)


def _members_of(estimators, owners) -> list[tuple]:
    """Names and classifiers of nodes that have rows; ValueError of others."""
    members = list(zip(*named_members(estimators), strict=True))
    for name, own in members:
        if _is_sent(own):
            raise ValueError(
                f"Node {name!r} is a file, which cannot be taken to rows: give rows "
                "alone, or files alone."
            )
    differ = sorted({name for name, _ in members} ^ set(owners))
    if differ:
        raise ValueError(
            f"Estimators and nodes do not match: {differ[:10]}. Give one estimator for "
            "each name in nodes."
        )
    return members


def _halves(owners, y, random_state) -> np.ndarray:
    """The half, 0 or 1, of each row: of each class at every node; -1 judges nothing."""
    halves, rng = np.full(len(y), -1), np.random.RandomState(random_state)
    for rows in owners.values():
        own = rows[np.lexsort((rng.permutation(len(rows)), y[rows]))]
        if len(own) > 1:
            halves[own] = (np.arange(len(own)) + rng.randint(2)) % 2
    return halves


def _refitted(members, X, y, owners, halves) -> list:
    """Clones of members, fitted without each half, since they know their own rows."""
    found = []
    for half in (0, 1):
        found.append([])
        for name, member in members:
            rows = owners[name][halves[owners[name]] != half]
            several = len(np.unique(y[rows])) > 1
            estimator = clone(unwrap(member)) if several else DummyClassifier()
            found[-1].append((name, estimator.fit(_safe_indexing(X, rows), y[rows])))
    return found


def _judged(candidate: Candidate, members, X, y, nodes, halves) -> tuple:
    """The entry of the table, and the rows that it labels right, made of others."""
    own = {"name": candidate.name, "looks_at_members": candidate.of_members}
    own |= dict.fromkeys(("accuracy", "log_loss", "standard_error")) | {"bytes": 0}
    start, hit, said = perf_counter(), np.zeros(len(y)), np.ones(len(y))
    try:
        for half in (0, 1):
            aggregator = clone(candidate.aggregator)
            if candidate.of_members:
                aggregator.set_params(estimators=members[half])
            rows = np.flatnonzero(halves == half)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                aggregator.fit(X, y, nodes=nodes, held_out=halves == half)
                proba = aggregator.predict_proba(_safe_indexing(X, rows))
            own["bytes"] += sum(m["bytes_received"] for m in aggregator.history_)
            known = y[rows][:, None] == aggregator.classes_
            said[rows] = np.maximum(np.sum(proba * known, axis=1), 1e-15)
            hit[rows] = known[np.arange(len(rows)), proba.argmax(axis=1)]
    except (ValueError, TypeError) as failure:
        return own | {"error": str(failure), "seconds": perf_counter() - start}, None
    hit, said = hit[halves >= 0], said[halves >= 0]
    own |= {"accuracy": hit.mean(), "log_loss": -np.log(said).mean(), "error": ""}
    return own | {"seconds": perf_counter() - start}, hit


def _smallest_of_the_best(table: list[dict], hits: list) -> int:
    able = [k for k, hit in enumerate(hits) if hit is not None]
    if not able:
        reasons = [f"{own['name']}: {own['error']}" for own in table]
        raise ValueError("No candidate can be made. " + "; ".join(reasons))
    best = max(able, key=lambda k: (table[k]["accuracy"], -table[k]["log_loss"]))
    for k in able:
        more = hits[best] - hits[k]
        table[k]["standard_error"] = more.std() / np.sqrt(len(more))
    return next(
        k
        for k in able
        if table[best]["accuracy"] - table[k]["accuracy"] <= table[k]["standard_error"]
    )


def _without_rows(estimators, random_state) -> BaseAggregator:
    """The vote of fitted estimators, or the linear model of what nodes sent."""
    if estimators is None:
        raise ValueError(
            "There is nothing to combine: give estimators, or X, y, nodes."
        )
    pairs = []
    if not is_channel(estimators):
        pairs = list(zip(*named_members(estimators), strict=True))
    if not pairs or any(_is_sent(own) for _, own in pairs):
        name, doubts = "linear", ["nobody judged it: files and channels bring no rows"]
        aggregator = GEMSLogisticAggregator(estimators, random_state=random_state)
    else:
        several = [(k, own) for k, own in pairs if len(final_step(own).classes_) > 1]
        if not several:
            raise ValueError(
                "Every estimator knows a single class, so a vote says nothing: give "
                "rows."
            )
        name, doubts = "vote", ["nobody judged it: there are no rows"]
        left_out = [k for k, _ in pairs if k not in dict(several)]
        if left_out:
            doubts.append(f"nodes of one class do not vote: {left_out[:10]}")
        aggregator = EnsembleAggregator(several, random_state=random_state)
    aggregator.fit()
    own = {"name": name, "looks_at_members": True, "error": ""}
    own |= dict.fromkeys(("accuracy", "log_loss", "standard_error", "seconds"))
    own["bytes"] = sum(message["bytes_received"] for message in aggregator.history_)
    aggregator.choice_ = Choice(name, (own,), 0, tuple(doubts))
    return aggregator
