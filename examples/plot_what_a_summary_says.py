# SPDX-License-Identifier: BSD-3-Clause
"""
What a summary says about the rows
==================================

A summary holds no rows, but it holds sums over rows. How much do these sums reveal?
Here an attacker has nothing but summaries, and tries two things. He tries to
*reconstruct* rows, and he tries to find out whether a given row was *among* the rows of
the node.

With few rows, both succeed completely where no rule of disclosure holds. The example
measures how much each setting helps. The nodes here use ``disclosure=None``, so even
two rows are summed. By default, what leaves a node passes the rule of the page
:ref:`privacy`, under which these attacks reconstruct no row.
"""

from dataclasses import dataclass, field

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import qr
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from skgems import GEMSLogisticAggregator
from skgems.gems import Moments, Spaces
from skgems.moments import ClassMoments
from skgems.spaces import Accuracy, SpaceProfile, accuracy_profile

PIXELS, LABELS = load_digits(return_X_y=True)
N_PIXELS = PIXELS.shape[1]
LARGEST_PIXEL = 16  # pixels are whole numbers from 0 to 16; nodes divide them by it
DIGITS = [3, 5, 8]  # the classes 0, 1 and 2 of every node here


def draw_node(n_rows_per_digit, seed=0):
    """Draw the rows of a node: so many of each of three digits.

    Returns X, y, and for each digit the places in PIXELS that the node does not have.
    """
    rng = np.random.RandomState(seed)
    shuffled = [rng.permutation(np.flatnonzero(LABELS == digit)) for digit in DIGITS]
    places = np.concatenate([digit[:n_rows_per_digit] for digit in shuffled])
    places_elsewhere = [digit[n_rows_per_digit:] for digit in shuffled]
    return PIXELS[places] / LARGEST_PIXEL, LABELS[places], places_elsewhere


def summarize(X, y, params=None, *, space=False, **options):
    """Summarize a classifier fitted on these rows, as a node does, however few."""
    classifier = LogisticRegression(max_iter=1000).fit(X, y)
    aggregator = GEMSLogisticAggregator(random_state=0, **(params or {}))
    # Without a rule rows can be reconstructed, which is shown here.
    return aggregator.summarize(
        classifier, X, y, name="node", disclosure=None, space=space, **options
    )


def reply_to_task(summary, task):
    """The node's reply to one task, out of all that its summary holds."""
    answers = summary.message.content["answers"].values()
    return next(answer["reply"] for answer in answers if answer["task"] == task)


def moments_in(summary):
    """The counts, means and scatters of the classes."""
    return ClassMoments.from_content(reply_to_task(summary, "moments")["moments"])


# %%
# Rows from moments
# -----------------
# A summary has the scatter of each class: the sum of products of deviations from the
# mean. The scatter of n rows has n - 1 directions, which are those between the rows. So
# the rows are known up to a rotation within these directions.
#
# With two rows there is only a sign to guess, and either sign gives both rows. With
# more rows, it helps the attacker that pixels are whole numbers:
#
# 1. The vectors of whole numbers along the scatter's directions form a *lattice*.
# 2. Measured by the inverse of the scatter, all rows are equally far apart in it: the
#    squared distance of two rows is 2. A shorter vector is unlikely.
# 3. Lattice reduction (the LLL algorithm of Lenstra, Lenstra and Lovász) finds short
#    vectors, and so the differences between rows.
# 4. The mean of the class, or of a cluster in it, then gives the rows themselves.
#
# Why 2: let D be the centered rows, of full rank n - 1. Then D pinv(D'D) D' is the
# projection I - 11'/n. So (x_i - x_j)' pinv(D'D) (x_i - x_k) is 2 for j = k, and 1 for
# j != k. Differences of other rows have products 0.


def reduce_lattice(basis, embed):
    """Make the vectors of a lattice's basis short, in place, by LLL.

    ``basis`` holds whole numbers, one vector a row; ``embed`` maps these to vectors
    whose Euclidean length is the one to be made short.
    """
    R = np.linalg.qr(embed(basis).T, mode="r")
    k = 1
    n_swaps = 0
    # A lattice of 40 rows takes some 10,000 swaps; one that takes more is given up.
    while k < len(basis) and n_swaps < 12000:
        # Subtract from vector k what it has along those before it.
        for j in range(k - 1, -1, -1):
            multiple = np.rint(R[j, k] / R[j, j])
            basis[k] -= multiple * basis[j]
            R[:, k] -= multiple * R[:, j]
        # Lovász' condition. With 0.99 in place of 1 the swaps surely come to an end.
        if R[k, k] ** 2 + R[k - 1, k] ** 2 >= 0.99 * R[k - 1, k - 1] ** 2:
            k += 1
            continue
        # Vector k is the shorter one, so that it goes first.
        basis[[k - 1, k]] = basis[[k, k - 1]]
        R[:, [k - 1, k]] = R[:, [k, k - 1]]
        # A rotation of two lines of R makes it triangular again.
        cosine_sine = R[[k - 1, k], k - 1] / np.hypot(*R[[k - 1, k], k - 1])
        rotation = np.array([cosine_sine, [-cosine_sine[1], cosine_sine[0]]])
        R[[k - 1, k]] = rotation @ R[[k - 1, k]]
        n_swaps += 1
        k = max(k - 1, 1)
        if n_swaps % 200 == 0:  # before errors of rounding add up
            R = np.linalg.qr(embed(basis).T, mode="r")
    return basis


# Weight of the test for whole numbers.
SHARPNESS = 1e6


def differences_of_rows(directions, whitening):
    """Find whole-numbered vectors that have the squared length 2.

    ``directions`` (n_pixels, rank) are those of the scatter, and ``whitening`` the same
    divided by the roots of the scatter's eigenvalues: ``z @ whitening`` has the squared
    length z' pinv(scatter) z.
    """
    rank = directions.shape[1]
    order = qr(directions.T, pivoting=True)[2]
    # Whole numbers at the pivots determine a vector at all pixels. It must be whole
    # there, too, which is tested at as many pixels as leave few false vectors.
    pivots = order[:rank]
    tested_pixels = order[rank : rank + int(0.6 * rank) + 4]
    pivots_to_pixels = directions @ np.linalg.inv(directions[pivots])

    def embed(basis):
        at_pivots = basis[:, :rank]
        not_whole = at_pivots @ pivots_to_pixels[tested_pixels].T - basis[:, rank:]
        whitened = at_pivots @ (pivots_to_pixels.T @ whitening)
        return np.hstack([whitened, SHARPNESS * not_whole])

    basis = np.eye(rank + len(tested_pixels))
    basis[:rank, rank:] = np.rint(pivots_to_pixels[tested_pixels].T)
    short = np.rint(reduce_lattice(basis, embed)[:, :rank] @ pivots_to_pixels.T)
    squared_lengths = np.einsum("ij,ij->i", short @ whitening, short @ whitening)
    are_differences = np.abs(squared_lengths - 2) < 0.1
    differences = {
        tuple(sign * vector) for vector in short[are_differences] for sign in (1, -1)
    }
    # The reduced basis has n - 1 differences, or fewer. The others are sums of two:
    # (x_i - x_j) + (x_j - x_k), whose product is -1.
    n_all_differences = rank * (rank + 1)
    newest = list(differences)
    while newest and len(differences) <= n_all_differences:
        firsts = np.array(newest)
        seconds = np.array(list(differences))
        products = firsts @ whitening @ (seconds @ whitening).T
        i, j = np.nonzero(np.abs(products + 1) < 0.05)
        sums = {tuple(vector) for vector in firsts[i] + seconds[j]}
        newest = list(sums - differences)
        differences |= set(newest)
    return np.array(sorted(differences)).reshape(-1, len(directions))


def connected_to(start, products):
    """Mark the differences that lead to one another by products that are not 0."""
    cluster = np.arange(len(products)) == start
    while True:
        neighbors = (products[cluster] != 0).any(axis=0) | cluster
        if neighbors.sum() == cluster.sum():
            return cluster
        cluster = neighbors


def star_in(cluster, products):
    """Indices of all differences x_i - x_j with the same x_i (or the same x_j)."""
    first = np.argmax(cluster)
    beside_first = np.flatnonzero(cluster & (products[first] == 1))
    if not len(beside_first):
        return [first]
    # A second difference decides which of its two rows they have in common.
    second = beside_first[0]
    return [first, second, *beside_first[products[second, beside_first] == 1]]


def rows_of_star(star, means):
    """Rows x_i and x_j from the differences x_i - x_j, and the mean of these rows.

    The mean may be any of ``means``, and the differences may all have the other sign:
    what gives whole numbers from 0 to 16 is right.
    """
    rows_of_all_means = []
    for mean in means:
        for from_center in (star, -star):
            # x_i is the mean of the rows plus the mean of all x_i - x_j, 0 included.
            center = mean + from_center.sum(axis=0) / (len(star) + 1)
            rows = np.vstack([center, center - from_center])
            are_whole = np.abs(rows - rows.round()).max() < 0.2
            if are_whole and rows.min() > -0.5 and rows.max() < LARGEST_PIXEL + 0.5:
                rows_of_all_means.append(rows.round())
    return rows_of_all_means


def reconstruct_rows(moments, class_index):
    """The rows of a class as whole numbers from 0 to 16, as many as can be found."""
    is_of_class = moments.columns == class_index
    if len(moments.groups) == 1:  # one scatter for all classes: the rows of all
        is_of_class[:] = True
    counts = moments.counts[is_of_class]
    means = LARGEST_PIXEL * (moments.origin + moments.means)[is_of_class]
    no_rows = np.zeros((0, moments.n_features))
    rank = int(counts.sum()) - len(counts)
    if moments.is_diagonal or not 0 < rank < moments.n_features:
        return no_rows
    group = min(class_index, len(moments.groups) - 1)
    scatter = LARGEST_PIXEL**2 * moments.scatter[group]
    eigenvalues, eigenvectors = np.linalg.eigh(scatter)
    if eigenvalues[-rank] < 1e-9 * eigenvalues[-1]:  # rows that are not independent
        return no_rows
    directions = eigenvectors[:, -rank:]
    whitening = directions / np.sqrt(eigenvalues[-rank:])
    differences = differences_of_rows(directions, whitening)
    products = np.rint((differences @ whitening) @ (differences @ whitening).T)

    reconstructed = []
    is_open = np.ones(len(differences), dtype=bool)
    while is_open.any():
        cluster = connected_to(np.argmax(is_open), products)
        is_open &= ~cluster
        star = differences[star_in(cluster, products)]
        reconstructed += rows_of_star(star, means[counts == len(star) + 1])
    return np.vstack(reconstructed) if reconstructed else no_rows


# %%
# The picture shows what the attacker finds if 2, 5, 10 or 20 rows of a digit were
# summed. The upper line of each pair shows the rows of the node, and the lower line
# shows what the attacker found.

figure, axes = plt.subplots(8, 10, figsize=(7, 6), layout="constrained")
for axes_of_pair, n in zip(axes.reshape(4, 2, 10), [2, 5, 10, 20], strict=True):
    X, y, _ = draw_node(n)
    found_rows = reconstruct_rows(moments_in(summarize(X, y)), class_index=0)
    true_rows = LARGEST_PIXEL * X[y == DIGITS[0]]
    for axis in axes_of_pair.flat:
        axis.set(xticks=[], yticks=[], frame_on=False)
    for (upper, lower), true_row in zip(axes_of_pair.T, true_rows, strict=False):
        upper.imshow(true_row.reshape(8, 8), cmap="gray_r", vmin=0, vmax=LARGEST_PIXEL)
        if len(found_rows):
            nearest = np.argmin(np.abs(found_rows - true_row).sum(axis=1))
            image = found_rows[nearest].reshape(8, 8)
            lower.imshow(image, cmap="gray_r", vmin=0, vmax=LARGEST_PIXEL)
    axes_of_pair[0, 0].set_ylabel(f"{n} rows", fontsize=8)
    axes_of_pair[1, 0].set_ylabel("found", fontsize=8)

# %%
# The parties may agree to send less. The table shows how many of the n rows of a digit
# the attacker then finds exactly.


@dataclass(kw_only=True)
class Choice:
    """Settings that all may agree on."""

    name: str
    params: dict = field(default_factory=dict)  # of the aggregator


CHOICES = [
    Choice(name="default"),
    Choice(name="Moments(n_components=1)", params={"moments": Moments(n_components=1)}),
    Choice(name='moments="shared"', params={"moments": "shared"}),
    Choice(name='moments="diagonal"', params={"moments": "diagonal"}),
]
ROWS = [2, 5, 10, 20, 40]
print(f"{'rows found of':24s}", *(f"{n:4d}" for n in ROWS))
for choice in CHOICES:
    n_found = []
    for n in ROWS:
        X, y, _ = draw_node(n)
        moments = moments_in(summarize(X, y, choice.params))
        found_rows = reconstruct_rows(moments, 0)
        true_rows = LARGEST_PIXEL * X[y == DIGITS[0]]
        are_equal = (true_rows[:, None] == found_rows).all(axis=2)
        n_found.append(int(are_equal.any(axis=1).sum()))
    print(f"{choice.name:24s}", *(f"{number:4d}" for number in n_found))

# %%
# Was this row among them?
# ------------------------
# The attacker has 40 other rows of each digit. He is shown further rows, and has to say
# whether they belong to the node. He tries four scores. Each is larger for rows that
# are more likely to be the node's:
#
# - the confidence of the local classifier, which can be seen whatever else is sent;
# - how much closer the row is to a mean that was sent, of the class or a cluster, than
#   to the mean of the attacker's own rows;
# - how well the row agrees with the gradient of the classifier's loss;
# - how close the row is to the directions of the scatter.
#
# The table shows areas under the ROC curve (AUC): 0.5 is a guess, and 1 is certainty.


def confidence(rows, class_index, network):
    """The margin of the logit of the class over the largest other logit."""
    logits = rows @ network.coefs[-1] + network.intercepts[-1]
    others = np.delete(logits, class_index, axis=1)
    return logits[:, class_index] - others.max(axis=1)


def closeness_to_means(rows, means, attackers_mean, precision):
    """The log-likelihood ratio of two normal distributions, for the closest mean."""
    ratios = [
        (rows - (mean + attackers_mean) / 2) @ precision @ (mean - attackers_mean)
        for mean in means
    ]
    return np.max(ratios, axis=0)


def closeness_to_scatter(rows, class_index, means, moments):
    """Minus the distance from the directions of the scatter.

    NaN where the scatter was not sent, or has all directions.
    """
    unknown = np.full(len(rows), np.nan)
    if moments.is_diagonal:
        return unknown
    group = min(class_index, len(moments.groups) - 1)
    has_scatter_of_its_own = len(moments.groups) > 1
    n_means = len(means) if has_scatter_of_its_own else len(moments.counts)
    rank = int(moments.group_counts[group]) - n_means
    if rank >= N_PIXELS:
        return unknown
    eigenvectors = np.linalg.eigh(moments.scatter[group])[1]
    drop_scatter = eigenvectors[:, : N_PIXELS - rank]
    distances = [np.linalg.norm((rows - mean) @ drop_scatter, axis=1) for mean in means]
    return -np.min(distances, axis=0)


def membership_scores(rows, class_index, attackers_rows, summary):
    """The scores of rows of one class by each attack, in the order of ATTACKS."""
    moments = moments_in(summary)
    gradient = reply_to_task(summary, "moments")["gradient"]
    attackers_mean = attackers_rows.mean(axis=0)
    # Some pixels are constant among the attacker's rows, and 40 rows have not all
    # directions: a little of the identity makes the covariance invertible.
    covariance = np.cov(attackers_rows.T) + 0.01 * np.eye(N_PIXELS)
    precision = np.linalg.inv(covariance)
    means = (moments.origin + moments.means)[moments.columns == class_index]
    slope = gradient[:-1, class_index]  # without that of the intercept
    return [
        confidence(rows, class_index, summary.network),
        closeness_to_means(rows, means, attackers_mean, precision),
        (moments.origin - rows) @ precision @ slope,
        closeness_to_scatter(rows, class_index, means, moments),
    ]


def areas_under_curves(n, choice, n_draws=3):
    """The mean AUC of each attack over digits and draws of the node's rows."""
    areas = []
    for seed in range(n_draws):
        X, y, places_elsewhere = draw_node(n, seed)
        summary = summarize(X, y, choice.params)
        for class_index, digit in enumerate(DIGITS):
            elsewhere = PIXELS[places_elsewhere[class_index][:80]] / LARGEST_PIXEL
            attackers_rows, rows_of_nobody = np.split(elsewhere, 2)
            rows = np.vstack([X[y == digit], rows_of_nobody])
            is_member = np.arange(len(rows)) < n
            areas.append(
                [
                    np.nan if np.isnan(score).any() else roc_auc_score(is_member, score)
                    for score in membership_scores(
                        rows, class_index, attackers_rows, summary
                    )
                ]
            )
    return np.mean(areas, axis=0)


SIZES = [5, 10, 20, 40, 80]
ATTACKS = ["classifier", "means", "gradient", "scatter"]
table = {
    choice.name: np.array([areas_under_curves(n, choice) for n in SIZES])
    for choice in CHOICES
}
print(f"\n{'AUC, rows a class':35s}", *(f"{n:5d}" for n in SIZES))
for name, areas_by_size in table.items():
    for attack, areas in zip(ATTACKS, areas_by_size.T, strict=True):
        if not np.isnan(areas).all():
            print(f"{name:24s}{attack:11s}", *(f"{area:5.2f}" for area in areas))
figure, axis = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
LINES = [
    ("default", "scatter", "scatter", "#c1272d", "-"),
    ('moments="shared"', "scatter", 'scatter, moments="shared"', "#c1272d", ":"),
    ("default", "means", "means of clusters", "#2a78d6", "-"),
    (
        "Moments(n_components=1)",
        "means",
        "means, Moments(n_components=1)",
        "#2a78d6",
        "--",
    ),
    ("default", "classifier", "the classifier alone", "#777777", "-"),
]
for name, attack, label, color, style in LINES:
    areas = table[name][:, ATTACKS.index(attack)]
    axis.plot(SIZES, areas, color=color, linestyle=style, label=label)
axis.set(xlabel="rows of the class", ylabel="AUC of membership", ylim=(0.45, 1.02))
axis.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))

# %%
# Radii
# -----
# A node may also send a good-enough space (:ref:`gems`). With accuracy as criterion, it
# says how far the model may move before rows are classified wrongly. Certified radii
# are functions of single rows, and are sent to the last digit. Whoever has a row can
# compute its radius and look for it.

X, y, places_elsewhere = draw_node(40)
certified = {"spaces": Spaces(construction="certified")}
summary = summarize(X, y, certified, space=True, classes=DIGITS)
profile = SpaceProfile.from_arrays(
    reply_to_task(summary, "space"), Accuracy(), "certified"
)


def has_radius_in_summary(row, class_index):
    """Whether the radius of this row is one of those that were sent."""
    profile_of_row = accuracy_profile(
        row[None],
        np.array([class_index]),
        profile.center,
        profile.metric,
        construction="certified",
    )
    if not len(profile_of_row.radii):  # predicted wrongly, so that it has no radius
        return False
    ratios = profile.radii.radii / profile_of_row.radii
    return np.abs(ratios - 1).min() < 1e-9


class_indices = np.searchsorted(DIGITS, y)
share_of_members = np.mean(
    [has_radius_in_summary(row, c) for row, c in zip(X, class_indices, strict=True)]
)
rows_of_nobody = PIXELS[places_elsewhere[0][:40]] / LARGEST_PIXEL
share_of_others = np.mean([has_radius_in_summary(row, 0) for row in rows_of_nobody])
print(
    f"\nthe summary has the radii of {share_of_members:.0%} of the node's rows, "
    f"and of {share_of_others:.0%} of other rows"
)
plt.show()
