"""The classifier that scikit-learn would fit on all rows, of sums over them."""

from collections.abc import Generator, Mapping
from copy import copy, deepcopy
from dataclasses import replace
from functools import wraps

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone, is_classifier
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..base import BaseAggregator, warn_user
from ..compat import HasMethods, StrOptions, fit_context
from ..federation import (
    Federation,
    KeepRepliesMixin,
    ReportMixin,
    Simulation,
    SummarizingMixin,
    Summary,
    answer,
    begins_again,
    check_labels,
    read_federation,
    read_members,
    region_summary,
    seen_classes_of,
    warn_of_many_rows,
)
from ..local import Member, has_steps, indices_of
from ..messages import Message
from ..moments import ClassMoments, ClassSums, merge_moments
from ..networks import Network, final_step
from ._classifiers import CLASSIFIERS, KINDS, Kind, pooled_fit
from ._disagreement import means_of_moments, means_of_sums, warn_of_disagreement
from ._forms import PooledForm, common_form

# The exponential of less than minus this is no normal number.
_MOST_LOG = 700.0


def _delegated(name: str):
    """A method of the aggregate that is the classifier's own, if that has it."""

    def has(aggregator) -> bool:
        own = getattr(aggregator, "_fitted", None) or aggregator._classifier()
        return hasattr(own, name)

    @wraps(getattr(BaseAggregator, name))
    def method(self, X):
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        if issparse(X) and not get_tags(self._fitted).input_tags.sparse:
            X = X.toarray()
        return getattr(self._fitted, name)(X)

    return method if name == "predict" else available_if(has)(method)


class PooledAggregator(SummarizingMixin, KeepRepliesMixin, ReportMixin, BaseAggregator):
    """The classifier that scikit-learn would fit on the rows of all nodes.

    Some classifiers are functions of sums over rows. Every node sends these sums, by
    class, in one message, and the aggregate predicts as the classifier fitted on all
    rows at one place: the same labels, and the same decision values or joint
    log-likelihoods to 1e-8 of their size. Nodes need no classifier of their own.

    Parameters
    ----------
    estimators : list of classifiers, list of (name, classifier) tuples, or None
        What nodes have: None, or fitted classifiers, which are not used but for
        `pooled`; summaries, paths of such, or a channel. None in place of the list:
        nodes without classifiers, by the names in `nodes`. Unfitted ones are trained
        (simulation).
    pooled : classifier or str, default=None
        What to make, unfitted, or the name of its class: RidgeClassifier,
        LinearDiscriminantAnalysis, NearestCentroid (euclidean),
        QuadraticDiscriminantAnalysis, GaussianNB, MultinomialNB, ComplementNB,
        BernoulliNB or CategoricalNB. None: that of the nodes' classifiers, where these
        agree; LinearDiscriminantAnalysis, where nodes have none.
    keep_replies : bool, default=False
        Whether nodes can come by :meth:`update` and go by :meth:`forget`.
    memory : str or object with the joblib.Memory interface, default=None
        Where to keep sums, which smoothing does not change. None: in the process.
    front : transformer, default=None
    n_jobs : int, default=None
    verbose : bool or int, default=0
        As of :class:`GEMSLogisticAggregator`; what comes out of `front` is summed.
    random_state : int, RandomState instance or None, default=None
        Deals rows to simulated nodes; not used otherwise.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted classes of the rows of all nodes.
    estimators_ : list
        What nodes have.
    node_names_ : list of str
        Names of the nodes.
    exact_ : bool
        Whether labels are those of scikit-learn's own fit on all rows, and decision
        values to 1e-8 of their size, on float64 rows. False where rounding may move
        these by more, or a node left classes of few rows out.
    pooled_form_ : PooledForm
        Its ``kind``, a name, its ``parameters``, and the ``reason`` where it is not
        exact.
    history_ : list of dict
        One for each message to the nodes: its "task", the "bytes_sent" to all and
        "bytes_received" from them, "seconds", nodes "left_out" because they failed
        twice, "loss", which nodes do not send here, and the bound "min_rows" under
        which each node replied.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Number of features; their names, if X or the local estimators have them.

    See Also
    --------
    GEMSLogisticAggregator : The likeliest linear model, nearly that of all rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skgems import PooledAggregator
    >>> X, y = load_iris(return_X_y=True)
    >>> nodes = ["lyon" if label < 2 else "paris" for label in y]
    >>> agg = PooledAggregator(pooled=GaussianNB()).fit(X, y, nodes=nodes)
    >>> whole = GaussianNB().fit(X, y)
    >>> bool((agg.predict(X) == whole.predict(X)).all()), agg.exact_
    (True, True)
    >>> agg.to_estimator()
    GaussianNB()
    """

    _asks_nodes = _takes_rows_alone = True
    _reads_weights = _looks_at_members = False
    _parameter_constraints: dict = {
        **BaseAggregator._parameter_constraints,
        "pooled": [HasMethods(["fit", "predict"]), StrOptions(set(CLASSIFIERS)), None],
        "keep_replies": ["boolean"],
        "memory": [None, str, HasMethods(["cache"])],
    }

    def __init__(
        self,
        estimators=None,
        *,
        pooled=None,
        keep_replies=False,
        memory=None,
        front=None,
        n_jobs=None,
        verbose=0,
        random_state=None,
    ):
        self.estimators = estimators
        self.pooled = pooled
        self.keep_replies = keep_replies
        self.memory = memory
        self.front = front
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    @begins_again
    def fit(self, X=None, y=None, nodes=None, held_out=None) -> "PooledAggregator":
        """Sum what the nodes send, and make the classifier of it.

        Parameters
        ----------
        X, y, nodes, held_out : array-like, default=None
            As of :meth:`GEMSLogisticAggregator.fit`, but public rows are those of one
            more node, the server, and rows held out are in no sum. Without `nodes`,
            there is one of nodes without classifiers; else a row belongs to every node
            that has seen its label.

        Returns
        -------
        self : PooledAggregator

        Raises
        ------
        ValueError
            If nodes' classifiers differ and none is given, one is no function of sums,
            a node has no rows or such as the classifier does not take, or it cannot be
            made of all rows; the message names node, class or parameter.

        Warns
        -----
        ClassesLeftOutWarning
            By summaries of nodes that have few rows of a class.
        NodesDisagreeWarning
            If the class means of a node contradict those of the others, of three nodes
            or more that share classes.
        ManyRowsWarning
            If a node has nearly all rows.
        """
        how = Simulation.of(self)
        self._classifier()  # what cannot be made is an error before anything is done
        given = self, X, y, nodes, held_out
        return self._fit_read(read_federation(*given, simulation=how, weights=False))

    def _default_estimator(self):
        return None

    def _classifier(self):
        """What is to be made; ValueError if nodes do not agree, or it cannot be."""
        if isinstance(self.pooled, str):
            return CLASSIFIERS[self.pooled]()
        if self.pooled is not None:
            return _known(self.pooled, "pooled")
        given, found = self.estimators, {}
        here = isinstance(given, list | tuple)
        if given is not None and (here or is_classifier(given)):
            names, members, _ = read_members(self, given)
            found = {
                name: _known(member, f"node {name!r}")
                for name, member in zip(names, members, strict=True)
                if not isinstance(member, Network | None)
            }
        if not found:  # or nodes are elsewhere
            return LinearDiscriminantAnalysis()
        forms = {
            name: {"kind": type(own).__name__}
            | {k: _plain(v) for k, v in own.get_params().items()}
            for name, own in found.items()
        }
        if reason := common_form(forms).reason:
            raise ValueError(f"Classifiers of nodes differ: {reason} Set pooled=.")
        return clone(next(iter(found.values())))

    def _long_form(self, name, value):
        if name == "pooled" and value in list(CLASSIFIERS):
            return CLASSIFIERS[value]()
        return super()._long_form(name, value)

    @property
    def _kind(self) -> Kind:
        return KINDS[type(self._classifier())]

    def _node_settings(self) -> dict:
        own = self._classifier()
        told = {name: _plain(getattr(own, name)) for name in self._kind.told}
        return {"pooled": {"part": type(own).__name__, "params": told}}

    @classmethod
    def _of_settings(
        cls, settings: Mapping, further_settings: Mapping
    ) -> "PooledAggregator":
        kind = CLASSIFIERS[settings["pooled"]["part"]]
        parameters = settings["pooled"]["params"]
        if not parameters.keys() <= set(KINDS[kind].told):
            raise ValueError(f"{kind.__name__} is asked with parameters {parameters!r}")
        aggregator = cls(pooled=kind(**parameters))
        aggregator._validate_params()
        return aggregator

    def _first_requests(self, **options) -> list[Message]:
        return [self._kind.request(self._classifier())]

    def _asks_at_most(self, n_hidden_layers: int) -> dict[str, int]:
        return {}

    def _summarize(self, estimator, *args, **options) -> Summary:
        if estimator is not None and self.pooled is None:
            why = "pooled=None is what classifiers are in this process"
            what = "have to be told what to make, pooled=GaussianNB() say"
            raise ValueError(f"{why}: nodes elsewhere {what}.")
        summary = super()._summarize(None, *args, **options)
        if hasattr(estimator, "classes_"):  # sums need no more of a classifier
            seen_classes = seen_classes_of(estimator, summary.name)
            check_labels(summary.name, summary.row_counts["labels"], seen_classes)
        return summary

    def _merged(self, summaries: list, name: str) -> Summary:
        region = copy(self).set_params(estimators=summaries)
        federation = read_federation(region, weights=False)
        sums, reason, _ = region._run(federation)(region._plan(federation, []))
        labels = federation.classes
        asked = self._kind.request(self._classifier())
        if isinstance(sums, ClassSums):
            reply = {k: own for k, own in vars(sums).items() if own is not None}
            reply["left_out"] = bool(reason)
        else:
            form = {"reason": reason or "there is no classifier"}
            moments = {"labels": labels.tolist(), "moments": sums.as_arrays()}
            reply = {**moments, "form": form, "scaled": False}
        features = federation.features
        none = np.zeros((0, features.n_features_in))
        network = Network.of_rows(labels, none, features.feature_names_in)
        return region_summary(self, federation, network, asked, reply, name)

    def _plan(self, federation: Federation, others: list) -> Generator:
        request = self._kind.request(self._classifier(), federation.classes)
        replies, names = (yield request), [*federation.names, "public"]
        contents = [*(reply.content for _, reply in replies), *others]
        pairs = zip(names, contents, strict=False)
        lacking = [name for name, own in pairs if _left_out(own)]
        few = "classes of too few rows (min_rows) are left out at node "
        if request.task == "class_sums":
            fields = ("labels", "counts", "sums", "sizes")
            parts = [ClassSums(*map(own.get, fields)) for own in contents]
            sums = ClassSums.merged(parts)
            means = means_of_sums(parts, sums)
        else:
            n_parts = [0]

            def arriving():
                for content in contents:
                    moments = ClassMoments.from_arrays(content["moments"])
                    columns = _columns(content["labels"], federation.classes)
                    moments = moments.renamed(columns).by_class()
                    n_parts.append(len(moments.columns))
                    yield moments

            merged = merge_moments(arriving())
            means = means_of_moments(merged, np.cumsum(n_parts))
            sums = merged.by_class()
        return sums, f"{few}{lacking[0]!r}." if lacking else "", means

    def _fit_federation(self, federation, run, public, kept, *, features=None) -> None:
        classifier, (X, y), others = self._classifier(), public, []
        if len(y):
            asked = self._kind.request(classifier, federation.classes)
            others = [answer(asked, Member.of("public", None, X, y)).content]
        classes = federation.classes
        sums, reason, means = run(self._plan(federation, others))
        if not federation.rows_are_shared:
            names = [*federation.names, "public"][: means.n_nodes]
            warn_of_disagreement(names, means)
            warn_of_many_rows(federation.names, federation.rows_in_moments)
        if isinstance(sums, ClassSums):
            there = _columns(sums.labels, classes)
        else:
            there = np.unique(sums.columns)
            sums = sums.renamed(np.searchsorted(there, np.arange(len(classes))))
        if len(there) < len(classes):
            missing = np.delete(classes, there).tolist()
            warn_user(
                f"No node has rows of the classes {missing} in its sums, so that they "
                "are never predicted. Give fit rows of them, or have nodes summarize "
                "with a smaller min_rows."
            )
        classes = classes[there]
        fitted, rounding = pooled_fit(classifier, sums, classes)
        kind, reason = type(fitted).__name__, reason or rounding
        form = PooledForm(kind, fitted.get_params(), reason)
        found = {"classes_": classes, "exact_": form.is_exact, "pooled_form_": form}
        found |= {"history_": run.history, "_fitted": fitted, "_kept": kept}
        self._publish(**federation.attributes() | (features or {}) | found)

    def _logits(self, X):
        scores = self._fitted.decision_function(X)
        return scores if scores.ndim > 1 else np.stack([0 * scores, scores], axis=1)

    predict = _delegated("predict")
    predict_proba = _delegated("predict_proba")
    decision_function = _delegated("decision_function")

    @property
    def _can_temper(self) -> bool:
        kinds = LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
        return isinstance(self._classifier(), kinds)

    def _temper(self, factor: float) -> None:
        """Multiply decision values of a discriminant analysis, which is too sure."""
        own = self._fitted
        if hasattr(own, "coef_"):
            own.coef_, own.intercept_ = own.coef_ * factor, own.intercept_ * factor
        else:
            # Distances by variances; what determinants have too much is in the priors.
            sizes = np.array([np.log(scaling).sum() for scaling in own.scalings_])
            priors = factor * np.log(own.priors_) + 0.5 * (1.0 - factor) * sizes
            if np.ptp(priors) > _MOST_LOG:
                what = "Classes are so unlike in spread that probabilities stay as sure"
                warn_user(
                    f"{what} as discriminant analysis has them, which is too sure."
                )
                return
            own.priors_ = np.exp(priors - priors.max())
            own.scalings_ = [scaling / factor for scaling in own.scalings_]
        reason = f"its decision values are multiplied by {factor}"
        self.pooled_form_ = replace(self.pooled_form_, reason=reason)
        self.exact_ = False

    def to_estimator(self):
        """The classifier itself, of scikit-learn alone.

        Returns
        -------
        estimator : classifier
            Of the class of `pooled`, with all its fitted attributes.
        """
        check_is_fitted(self)
        return self._exported(deepcopy(self._fitted))


def _known(estimator, where: str):
    """A classifier that is a function of sums, inside what wraps it; or ValueError."""
    classifier = final_step(estimator)
    kind = type(classifier).__name__
    if type(classifier) not in KINDS:
        raise ValueError(
            f"{where}: {kind} is not a function of sums over rows. Set pooled= to one "
            f"of {sorted(CLASSIFIERS)}, or let classifiers of any kind vote: "
            "EnsembleAggregator."
        )
    if has_steps(estimator):
        raise ValueError(
            f"{where}: {kind} after steps of a pipeline is not a function of sums over "
            f"rows. Give the steps to all nodes as front=, and pooled={kind}()."
        )
    return classifier


def _plain(value):
    several = isinstance(value, tuple | np.ndarray)
    return np.asarray(value).tolist() if several else value


def _left_out(content) -> bool:
    if "left_out" in content:
        return content["left_out"]
    few = len(content["labels"]) > len(np.unique(content["moments"]["columns"]))
    return few or "min_rows" in content["form"].get("reason", "")


def _columns(labels, classes) -> np.ndarray:
    columns = indices_of(labels, classes)
    if (columns < 0).any():
        raise ValueError(f"a node has rows of classes that are none of {classes}.")
    return columns
