# SPDX-License-Identifier: BSD-3-Clause
"""What a curious server finds of a node's rows, and what keeping rows back costs.

Four tables: all attacks that the tests play (tests/helpers/attacks.py), on more rows
and under several bounds; what training of planted networks shows, by how many units
they have; gradients of thousands of steep models, of which only some are answered; and
what five messages lose by what nodes keep back.
"""

from __future__ import annotations

import sys
import warnings
from argparse import ArgumentParser
from pathlib import Path

import numpy as np
from _quick import note_figure, parse_with_quick
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.asking import Message, Nodes
from skgems.datasets import partition_by_label, partition_dirichlet
from skgems.guard import Agreement, reply_to
from skgems.parties import ClassesLeftOutWarning

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from helpers.accepting import nodes_that_accept_everything  # noqa: E402
from helpers.attacked_nodes import (  # noqa: E402
    SORTS,
    AgreedNode,
    HonestSummary,
    Rows,
    breast_cancer_rows,
    features_found,
)
from helpers.attacks import ATTACKS, Attack  # noqa: E402
from helpers.attacks_by_training import network_of_node, training_of_planted_layers  # noqa: E402
from helpers.disclosures import rule_of  # noqa: E402

# Of the model's logits along the direction: what finds most of those that are answered.
STEEPNESS = 60.0
NEAR = (1e-6, 1e-2, 0.1, 0.3)
SETS = {"digits": load_digits, "wine": load_wine, "cancer": load_breast_cancer}
BOUNDS = (1, 10, 50)
N_UNITS = (30, 100, 300, 1000, 3000)
TABLES = ("attacks", "training", "gradients", "price")


# All attacks -----------------------------------------------------------------------


def cell_of(rows: Rows, guesses: np.ndarray) -> str:
    """Features of the median row that are found, and rows found in every feature."""
    n_found = features_found(rows, guesses)
    share_whole = np.mean(n_found == rows.n_features)
    return f"{np.median(n_found):4.0f} {share_whole:4.0%}"


def print_attacks(n_rows: int) -> None:
    """Each attack on each sort of columns, without protection and under agreements."""
    print(
        f"\nof {n_rows} rows: features of the median row, of 30, within 0.3 "
        "deviations; and rows found in all of them"
    )
    bounds = [f"min_rows={bound}" for bound in BOUNDS]
    columns = ["honest", "nothing", *bounds]
    print(f"{'attack':28} {'tasks':12} {'columns':11}", *(f"{c:>11}" for c in columns))
    for sort in SORTS:
        rows = breast_cancer_rows(sort, n_rows)
        # Under the same rule as the node; without one where the bound is 1.
        summaries = {b: HonestSummary.of(rows, min_rows=b) for b in BOUNDS}
        honest = cell_of(rows, summaries[10].guesses())
        for attack in ATTACKS:
            open_to = attack.without_protection(rows, summaries[1])
            cells = [honest, cell_of(rows, open_to)]
            for bound, summary in summaries.items():
                guesses = attack.under_agreement(rows, summary, min_rows=bound)
                cells.append(cell_of(rows, guesses))
                share = np.mean(features_found(rows, guesses) == rows.n_features)
                note_figure(f"{sort}, {attack.name}, min_rows={bound}", share)
            print(
                f"{name_of(attack):28} {'+'.join(attack.tasks):12} {sort:11}",
                *(f"{cell:>11}" for cell in cells),
                flush=True,
            )


def name_of(attack: Attack) -> str:
    """With a mark where it is in many exchanges, or where an agreement means trust."""
    marks = " *" if attack.node is not AgreedNode else ""
    marks += " +" if attack.is_trusted else ""
    return attack.name.replace("_", " ")[: 28 - len(marks)] + marks


# Training --------------------------------------------------------------------------


def print_training() -> None:
    """Rows that planted layers show after one epoch, by units, batches and bounds."""
    print("\nrows found in all features, after an epoch of training a planted network")
    print(f"{'rows':>5} {'batch':>6} {'min_rows':>8}", *(f"{n:>6}" for n in N_UNITS))
    for n_rows in (100, 200, 400):
        rows = breast_cancer_rows("continuous", n_rows)
        for optimizer, batch, bound in (
            ("adam", "auto", 1),
            ("adam", "auto", 10),
            ("adam", "auto", 50),
            ("sgd", 20, 10),
        ):
            network = network_of_node(rows, n_units=20, solver=optimizer)
            network.set_params(batch_size=batch)
            summary = HonestSummary.of(rows, min_rows=bound)
            agreement = Agreement.of(
                GEMSMLPAggregator(random_state=0), disclosure=rule_of(bound)
            )
            shares = []
            for n_units in N_UNITS:
                node = AgreedNode(rows, network, agreement, min_rows=bound)
                guesses = training_of_planted_layers(
                    node.ask, summary, n_units=n_units, optimizer=optimizer
                )
                n_found = features_found(rows, summary.completed(guesses))
                shares.append(np.mean(n_found == rows.n_features))
            print(
                f"{n_rows:>5} {batch:>6} {bound:>8}",
                *(f"{share:>6.0%}" for share in shares),
                flush=True,
            )


# Gradients of steep models ---------------------------------------------------------


def found_by_gradients(
    X, y, clf, *, n_thresholds: int, n_models: int, min_rows: int
) -> tuple[float, list[int]]:
    """Share of gradients kept back, and rows of class 0 found to within `NEAR`."""
    v = np.random.default_rng(0).standard_normal(X.shape[1])
    v /= np.linalg.norm(v)
    thresholds = np.linspace(-8, 8, n_thresholds)
    gradients = []
    for of_message in np.array_split(thresholds, -(-n_thresholds // n_models)):
        W = np.zeros((len(of_message), X.shape[1] + 1, 2))
        W[:, :-1, 1] = STEEPNESS * v
        W[:, -1, 1] = -STEEPNESS * of_message
        request = Message.of(
            "evaluate",
            W=W,
            labels=[0],
            columns=np.array([0]),
            factors=np.ones(1),
            gradient=True,
        )
        with nodes_that_accept_everything():  # nothing counts what is asked
            reply = reply_to(request, clf, X, y, name="a", disclosure=rule_of(min_rows))
        gradients.append(reply.content["gradient"][:, :, 1])
    gradients = np.concatenate(gradients)
    steps = gradients[:-1] - gradients[1:]
    steps = steps[np.abs(steps[:, -1]) > 1e-9]
    distances = np.full((y == 0).sum(), np.inf)  # of each row of class 0
    for step in steps:
        apart = np.abs(X[y == 0] - step[:-1] / step[-1]).max(axis=1)
        nearest = np.argmin(apart)
        distances[nearest] = min(distances[nearest], apart[nearest])
    n_found = [int((distances < near).sum()) for near in NEAR]
    return np.isnan(gradients[:, 0]).mean(), n_found


def print_gradients() -> None:
    """Rows of breast cancer that gradients of thousands of steep models show."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[:200], y[:200]
    clf = LogisticRegression().fit(X, y)
    print(f"\nrows of {(y == 0).sum()} found, to within {NEAR} deviations")
    for n_thresholds, n_models, bound in ((4001, 7, 1), (4001, 7, 10), (2001, 1, 10)):
        withheld, n_found = found_by_gradients(
            X, y, clf, n_thresholds=n_thresholds, n_models=n_models, min_rows=bound
        )
        about = f"{n_models} a message, min_rows={bound}"
        note_figure(f"% kept back, {about}", 100 * withheld)
        note_figure(f"found, {about}", n_found[-1])
        print(
            f"{n_models} a message, min_rows={bound:<2}: "
            f"{withheld:4.0%} kept, {n_found}",
            flush=True,
        )


# The price -------------------------------------------------------------------------


def fitted_over_channel(X, y, nodes, *, C: float, min_rows: int) -> tuple:
    """The aggregate of five messages, and the share of gradients kept back."""
    clfs = [
        LogisticRegression(C=C, max_iter=2000).fit(X[nodes == k], y[nodes == k])
        for k in range(nodes.max() + 1)
    ]
    kept_back = []
    ledgers: dict[str, dict] = {}

    def ask(requests):
        replies = {}
        for name, request in requests.items():
            at_node = nodes == int(name)
            replies[name] = reply_to(
                request,
                clfs[int(name)],
                X[at_node],
                y[at_node],
                name=name,
                disclosure=rule_of(min_rows),
                state=ledgers.setdefault(name, {}),
            )
            if request.task == "evaluate":
                gradients = replies[name].content["gradient"]
                kept_back.extend(np.isnan(gradients[:, 0, 0]))
        return replies

    channel = Nodes(
        ask, [str(k) for k in range(len(clfs))], disclosure=rule_of(min_rows)
    )
    agg = GEMSLogisticAggregator(channel, C=C, n_rounds=5, random_state=0)
    return agg.fit(), np.mean(kept_back)


def print_price() -> None:
    """Accuracy of five messages under two bounds, beside that of all rows together."""
    print("\naccuracy of five messages, and gradients kept back")
    for name, load in SETS.items():
        X, y = load(return_X_y=True)
        X, X_test, y, y_test = train_test_split(
            X, y, test_size=0.3, random_state=0, stratify=y
        )
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
        parts = {"Dirichlet 0.5": partition_dirichlet(y, 5, alpha=0.5, random_state=0)}
        if name == "digits":
            parts["disjoint"] = partition_by_label(y, 2)
        for part, nodes in parts.items():
            for C in (1.0, 100.0):
                pooled = LogisticRegression(C=C, max_iter=5000).fit(X, y)
                cells = [f"{pooled.score(X_test, y_test):.3f} pooled"]
                for bound in (1, 10):
                    agg, withheld = fitted_over_channel(
                        X, y, nodes, C=C, min_rows=bound
                    )
                    score = agg.score(X_test, y_test)
                    note_figure(f"{name}, {part}, C={C:g}, min_rows={bound}", score)
                    if bound > 1:
                        kept_back = f"% kept back, {name}, {part}, C={C:g}"
                        note_figure(kept_back, 100 * withheld)
                    cells.append(f"min_rows={bound} {score:.3f} ({withheld:.0%})")
                print(f"{name:7} {part:13} C={C:<5g}", *cells, flush=True)


def main() -> None:
    """Print the tables."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--rows", type=int, default=200, help="of the node attacked")
    arguments = parse_with_quick(
        parser, quick={"tables": ["gradients", "price"], "rows": 100}
    )
    for category in (ConvergenceWarning, ClassesLeftOutWarning):
        warnings.simplefilter("ignore", category)
    if "attacks" in arguments.tables:
        print_attacks(arguments.rows)
    if "training" in arguments.tables:
        print_training()
    if "gradients" in arguments.tables:
        print_gradients()
    if "price" in arguments.tables:
        print_price()


if __name__ == "__main__":
    main()
