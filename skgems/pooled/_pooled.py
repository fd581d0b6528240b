"""The classifier that scikit-learn would fit on all rows, of sums over them."""

from collections.abc import Callable, Generator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import wraps

import numpy as np
from scipy.sparse import issparse
from sklearn.base import ClassifierMixin, clone, is_classifier
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..base import BaseAggregator, Takes, warn_user
from ..compat import HasMethods, StrOptions
from ..federation import (
    Federation,
    KeepRepliesMixin,
    KeptReplies,
    ReportMixin,
    Run,
    SummarizingMixin,
    Summary,
    answer,
    check_labels,
    federated_fit,
    read_federation,
    read_members,
    region_summary,
    seen_classes_of,
    warn_of_many_rows,
)
from ..local import Member, has_steps, indices_of
from ..moments import ClassMoments, ClassSums, NodeMeans, merge_moments
from ..networks import Network, final_step
from ._classifiers import CLASSIFIERS, KINDS, pooled_fit
from ._disagreement import means_of_moments, means_of_sums, warn_of_disagreement
from ._forms import PooledForm, common_form
from ._terms import PooledTerms, as_list

# The exponential of less than minus this is no normal number.
_MOST_LOG = 700.0
# Name of the node that has the public rows: the server.
_SERVER = "public"


@dataclass(frozen=True, kw_only=True, eq=False)
class _PooledSums:
    """The sums of all nodes."""

    sums: ClassMoments | ClassSums
    reason: str  # why they are not of all rows, or ""
    node_means: NodeMeans  # class means of each node, which are compared


def _delegated(name: str) -> Callable | property:
    """A method of the aggregate that is the classifier's own, if that has it."""

    def classifier_has_it(aggregator: "PooledAggregator") -> bool:
        # Before fit the classifier that is to be made says what there will be.
        classifier = getattr(aggregator, "_fitted", None) or aggregator._classifier()
        return hasattr(classifier, name)

    @wraps(getattr(BaseAggregator, name))
    def method(self, X) -> np.ndarray:
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        if issparse(X) and not get_tags(self._fitted).input_tags.sparse:
            X = X.toarray()
        return getattr(self._fitted, name)(X)

    # Every classifier predicts.
    return method if name == "predict" else available_if(classifier_has_it)(method)


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

    _takes = Takes(networks=False, learnt=False, rows_alone=True)
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

    @federated_fit
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
        self._classifier()  # what cannot be made is an error before anything is done
        federation = read_federation(self, X, y, nodes, held_out)
        return self._fit_read(federation)

    def _default_estimator(self) -> None:
        return None

    def _classifier(self) -> ClassifierMixin:
        """What is to be made; ValueError if nodes do not agree, or it cannot be."""
        if isinstance(self.pooled, str):
            return CLASSIFIERS[self.pooled]()
        if self.pooled is not None:
            return _checked_classifier(self.pooled, place="pooled")
        classifier_by_node = self._classifiers_of_nodes()
        if not classifier_by_node:
            return LinearDiscriminantAnalysis()
        forms = {
            name: _kind_and_parameters(classifier)
            for name, classifier in classifier_by_node.items()
        }
        if reason := common_form(forms).reason:
            raise ValueError(
                f"The classifiers of the nodes differ: {reason} Set pooled= to the "
                "classifier that is to be made."
            )
        return clone(next(iter(classifier_by_node.values())))

    def _classifiers_of_nodes(self) -> dict[str, ClassifierMixin]:
        """By name of the node; none where nodes are elsewhere, or have none."""
        is_list = isinstance(self.estimators, list | tuple)
        if self.estimators is None or not (is_list or is_classifier(self.estimators)):
            return {}
        names, members, _ = read_members(self, self.estimators)
        return {
            name: _checked_classifier(member, place=f"node {name!r}")
            for name, member in zip(names, members, strict=True)
            if not isinstance(member, Network | None)
        }

    def _long_form(self, name: str, value: object) -> object | None:
        if name == "pooled" and value in list(CLASSIFIERS):
            return CLASSIFIERS[value]()
        return super()._long_form(name, value)

    def _terms(self) -> PooledTerms:
        return PooledTerms(classifier=self._classifier())

    def _summarize(
        self, estimator: object, *args: object, **options: object
    ) -> Summary:
        if estimator is not None and self.pooled is None:
            raise ValueError(
                "pooled=None stands for the classifiers of the nodes in this process, "
                "which nodes elsewhere do not see. Tell them what is to be made, as "
                "with pooled=GaussianNB()."
            )
        # Sums need no more of a classifier than the classes that it has seen.
        summary = super()._summarize(None, *args, **options)
        if hasattr(estimator, "classes_"):
            check_labels(
                summary.name,
                summary.row_counts["labels"],
                seen_classes_of(estimator, summary.name),
            )
        return summary

    def _merged(self, summaries: list, name: str) -> Summary:
        region = copy(self).set_params(estimators=summaries)
        federation = read_federation(region)
        pooled_sums = region._run(federation)(region._plan(federation, []))
        features = federation.features
        no_rows = np.zeros((0, features.n_features_in))
        return region_summary(
            self,
            federation,
            network=Network.of_rows(
                federation.classes, no_rows, features.feature_names_in
            ),
            request=self._terms().request(),
            reply=_content_of(pooled_sums, classes=federation.classes),
            name=name,
        )

    def _plan(self, federation: Federation, further_contents: list) -> Generator:
        """Plan of the _PooledSums; ``further_contents`` are replies that are here."""
        classes = federation.classes
        request = self._terms().request(classes)
        replies = yield request
        contents = [*(reply.content for _, reply in replies), *further_contents]
        names = [*federation.names, _SERVER]
        sums: ClassMoments | ClassSums
        if request.task == "class_sums":
            parts = [_class_sums_of(content) for content in contents]
            sums = ClassSums.merged(parts)
            node_means = means_of_sums(parts, sums)
        else:
            # One after the other: scatters of all nodes together may be large.
            merged = merge_moments(
                _class_moments_of(content, classes) for content in contents
            )
            n_parts = [
                len(np.unique(content["moments"]["columns"])) for content in contents
            ]
            node_means = means_of_moments(merged, np.cumsum([0, *n_parts]))
            sums = merged.by_class()
        return _PooledSums(
            sums=sums,
            reason=_reason_of_left_out(names, contents),
            node_means=node_means,
        )

    def _attributes(
        self,
        federation: Federation,
        run: Run,
        *,
        public: tuple,
        kept: KeptReplies | None,
    ) -> dict[str, object]:
        pooled_sums = run(self._plan(federation, self._replies_of(public, federation)))
        if not federation.rows_are_shared:
            node_means = pooled_sums.node_means
            # The server is the last node, where it has public rows.
            names = [*federation.names, _SERVER][: node_means.n_nodes]
            warn_of_disagreement(names, node_means)
            warn_of_many_rows(federation.names, federation.rows_in_moments)
        sums, columns = _without_empty_classes(pooled_sums.sums, federation.classes)
        if len(columns) < len(federation.classes):
            missing = np.delete(federation.classes, columns).tolist()
            warn_user(
                f"No node has rows of the classes {missing} in its sums, so that they "
                "are never predicted. Give fit rows of them, or have nodes summarize "
                "with a smaller min_rows."
            )
        classes = federation.classes[columns]
        fitted, rounding_reason = pooled_fit(self._classifier(), sums, classes)
        form = PooledForm(
            kind=type(fitted).__name__,
            parameters=fitted.get_params(),
            reason=pooled_sums.reason or rounding_reason,
        )
        return {
            "classes_": classes,
            "exact_": form.is_exact,
            "pooled_form_": form,
            "history_": run.history,
            "_fitted": fitted,
        }

    def _replies_of(self, public: tuple, federation: Federation) -> list[Mapping]:
        """What a node of the public rows would reply; nothing where there are none."""
        X, y = public
        if not len(y):
            return []
        request = self._terms().request(federation.classes)
        return [answer(request, Member.of(_SERVER, None, X, y)).content]

    def _logits(self, X: np.ndarray) -> np.ndarray:
        scores = self._fitted.decision_function(X)
        return scores if scores.ndim > 1 else np.stack([0 * scores, scores], axis=1)

    predict = _delegated("predict")
    predict_proba = _delegated("predict_proba")
    decision_function = _delegated("decision_function")

    @property
    def _can_temper(self) -> bool:
        return isinstance(
            self._classifier(),
            LinearDiscriminantAnalysis | QuadraticDiscriminantAnalysis,
        )

    def _temper(self, factor: float) -> None:
        """Multiply decision values of a discriminant analysis, which is too sure."""
        if isinstance(self._fitted, QuadraticDiscriminantAnalysis):
            is_tempered = _temper_quadratic(self._fitted, factor)
        else:
            self._fitted.coef_ = self._fitted.coef_ * factor
            self._fitted.intercept_ = self._fitted.intercept_ * factor
            is_tempered = True
        if is_tempered:
            self.pooled_form_ = replace(
                self.pooled_form_,
                reason=f"its decision values are multiplied by {factor}",
            )
            self.exact_ = False

    def to_estimator(self) -> ClassifierMixin:
        """The classifier itself, of scikit-learn alone.

        Returns
        -------
        estimator : classifier
            Of the class of `pooled`, with all its fitted attributes.
        """
        check_is_fitted(self)
        return self._exported(deepcopy(self._fitted))


def _temper_quadratic(classifier: QuadraticDiscriminantAnalysis, factor: float) -> bool:
    """Multiply its decision values in place; False, and a warning, where it cannot be.

    These are ``log(prior) - (x - m)' inv(V) (x - m) / 2 - log |V| / 2``. Variances V
    over the factor f multiply the distance, but change log |V| by d log f alone, which
    all classes share. So the prior takes what the determinant lacks:
    ``f log(prior) + (1 - f) log |V| / 2``.
    """
    log_determinants = np.array(
        [np.log(scaling).sum() for scaling in classifier.scalings_]
    )
    log_priors = factor * np.log(classifier.priors_)
    log_priors = log_priors + 0.5 * (1.0 - factor) * log_determinants
    if np.ptp(log_priors) > _MOST_LOG:
        warn_user(
            "Classes are so unlike in spread that probabilities stay as sure as "
            "discriminant analysis has them, which is too sure."
        )
        return False
    classifier.priors_ = np.exp(log_priors - log_priors.max())
    classifier.scalings_ = [scaling / factor for scaling in classifier.scalings_]
    return True


def _checked_classifier(estimator: object, *, place: str) -> ClassifierMixin:
    """A classifier that is a function of sums, inside what wraps it; or ValueError."""
    classifier = final_step(estimator)
    kind = type(classifier).__name__
    if type(classifier) not in KINDS:
        raise ValueError(
            f"{place}: {kind} is not a function of sums over rows. Set pooled= to one "
            f"of {sorted(CLASSIFIERS)}, or let classifiers of any kind vote: "
            "EnsembleAggregator."
        )
    if has_steps(estimator):
        raise ValueError(
            f"{place}: {kind} after steps of a pipeline is not a function of sums over "
            f"rows. Give the steps to all nodes as front=, and pooled={kind}()."
        )
    return classifier


def _kind_and_parameters(classifier: ClassifierMixin) -> dict[str, object]:
    """A classifier as :func:`common_form` compares it with others."""
    params = classifier.get_params()
    return {
        "kind": type(classifier).__name__,
        **{name: as_list(value) for name, value in params.items()},
    }


# ---- contents of replies -------------------------------------------------------------


def _class_sums_of(content: Mapping) -> ClassSums:
    return ClassSums(
        labels=content["labels"],
        counts=content["counts"],
        sums=content["sums"],
        sizes=content.get("sizes"),
    )


def _class_moments_of(content: Mapping, classes: np.ndarray) -> ClassMoments:
    """One part a class, whose columns are of all classes."""
    moments = ClassMoments.from_arrays(content["moments"])
    return moments.renamed(_columns(content["labels"], classes)).by_class()


def _content_of(pooled_sums: _PooledSums, *, classes: np.ndarray) -> dict[str, object]:
    """Sums of a region's nodes, as one node would reply them."""
    sums = pooled_sums.sums
    if isinstance(sums, ClassSums):
        fields = {
            name: value for name, value in vars(sums).items() if value is not None
        }
        return {**fields, "left_out": bool(pooled_sums.reason)}
    return {
        "labels": classes.tolist(),
        "moments": sums.as_arrays(),
        "form": {"reason": pooled_sums.reason or "there is no classifier"},
        "scaled": False,
    }


def _reason_of_left_out(names: Sequence[str], contents: Sequence[Mapping]) -> str:
    """Why sums are not of all rows, with the first node where that is so; or ""."""
    for name, content in zip(names, contents, strict=False):
        if _leaves_classes_out(content):
            return f"classes of too few rows (min_rows) are left out at node {name!r}."
    return ""


def _leaves_classes_out(content: Mapping) -> bool:
    if "left_out" in content:
        return content["left_out"]
    if len(content["labels"]) > len(np.unique(content["moments"]["columns"])):
        return True
    # A region adds up what its nodes sent, and says so in its reason alone.
    return "min_rows" in content["form"].get("reason", "")


def _without_empty_classes(
    sums: ClassMoments | ClassSums, classes: np.ndarray
) -> tuple[ClassMoments | ClassSums, np.ndarray]:
    """Sums by the classes that have rows, and the columns of these in ``classes``."""
    if isinstance(sums, ClassSums):
        return sums, _columns(sums.labels, classes)
    columns = np.unique(sums.columns)
    places = np.searchsorted(columns, np.arange(len(classes)))
    return sums.renamed(places), columns


def _columns(labels: Sequence, classes: np.ndarray) -> np.ndarray:
    columns = indices_of(labels, classes)
    if (columns < 0).any():
        unknown = np.asarray(labels)[columns < 0].tolist()
        raise ValueError(
            f"A node has rows of the classes {unknown}, which are none of the classes "
            f"{classes.tolist()} of the nodes. Have all nodes summarize again."
        )
    return columns
