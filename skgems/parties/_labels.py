"""Whether a node's rows have the labels that its own classifier was fitted on.

A node of whose labels its classifier has seen none is refused at once: labels are
written in two ways, or the classifier is another node's. If it has seen some, only the
server can tell whether the others are right, so that the node is warned.
"""

import unicodedata
from collections.abc import Iterable, Sequence

from ..base import warn_user
from ..local import Member, local_model
from ..messages import listed

# Characters of a label that an error repeats: somebody else may have chosen the label,
# and could put a page of text into the server's log. Most names of classes fit.
_MOST_CHARACTERS = 40
# Small letters of Cyrillic and Greek that look like Latin ones, which keyboards mix up.
_LATIN_LOOKALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u03bf\u03b1\u03c1\u03bd",
    "aeopcyxijsoapv",
)


class UnseenClassesWarning(UserWarning):
    """A node has rows of classes on which its own classifier was not fitted.

    The server accepts these rows if the classifier of another node has seen the
    classes, and refuses them otherwise. In the latter case the labels are often written
    differently from those of the classifier.
    """


def shown_labels(labels: Iterable) -> str:
    """A few labels in words: shortened, and with control characters escaped."""
    return listed(f"{label!r:.{_MOST_CHARACTERS}}" for label in labels)


def check_labels(
    name: str, labels: Sequence, seen_classes: Sequence, *, about_net: str = ""
) -> None:
    """Raise ValueError if a node's classifier has seen none of its rows' labels.

    ``about_net`` is what to do where classes are numbers of a net's outputs.
    """
    if not set(labels).isdisjoint(seen_classes):
        return
    advice = _advice_for_labels(labels, seen_classes, about_net=about_net)
    raise ValueError(
        f"Node {name!r}: its classifier has seen none of the labels of its rows. The "
        f"rows have the labels {shown_labels(labels)}; the classifier was fitted on "
        f"the classes {shown_labels(seen_classes)}. {advice}"
    )


def seen_classes_of(estimator: object, name: str) -> list:
    """Classes that a fitted classifier of any kind has seen."""
    description = local_model(estimator, name=name).description
    return description.classes[description.seen].tolist()


def check_labels_of(member: Member) -> None:
    """Raise ValueError if a member's classifier has seen none of its rows' labels."""
    labels, _ = member.row_counts()
    check_labels(
        member.name,
        labels,
        _seen_classes(member),
        about_net=member.model.advice_on_labels,
    )


def warn_of_unseen_classes(member: Member) -> None:
    """Warn of rows of classes that a member's classifier has not seen.

    Only the server, which knows the classes of all nodes, can tell if they are wrong.
    """
    seen_classes = _seen_classes(member)
    labels, _ = member.row_counts()
    unseen = [label for label in labels if label not in seen_classes]
    if unseen:
        warn_user(
            f"Node {member.name!r} has rows of the classes {shown_labels(unseen)}, "
            "which its classifier has not seen; it was fitted on "
            f"{shown_labels(seen_classes)}. The server accepts these rows if the "
            "classifier of another node has seen their classes, and refuses them "
            "otherwise. If they are rows of classes that the classifier has seen, "
            "write their labels as it was fitted on them.",
            UnseenClassesWarning,
        )


def _seen_classes(member: Member) -> list:
    network = member.model.described
    return network.classes[network.seen].tolist()


def _advice_for_labels(
    labels: Sequence, seen_classes: Sequence, *, about_net: str
) -> str:
    """Say what to do about labels that are none of the classes, in a sentence."""
    if about_net:
        return about_net[:1].upper() + about_net[1:]
    bare_classes = {bare_label(label) for label in seen_classes}
    if not {bare_label(label) for label in labels}.isdisjoint(bare_classes):
        return (
            "Some differ only in case, in blanks, or in being texts or numbers: write "
            "the labels of the rows as the classifier was fitted on them."
        )
    if all(isinstance(label, int | float) for label in labels) and any(
        isinstance(label, str) for label in seen_classes
    ):
        return (
            "The labels of the rows look like codes of the classes: give the rows the "
            "labels themselves, as the classifier was fitted on them."
        )
    return (
        "Give the rows the labels that the classifier was fitted on, or fit the "
        "classifier again to these rows."
    )


def bare_label(label: object) -> str:
    """A label as a text, without what tables often write in several ways.

    That is case, blanks, whether it is a text or a number, how its letters are coded,
    and which of several letters that look alike they are.
    """
    if isinstance(label, float) and label.is_integer():
        return str(int(label))  # a table with gaps has 1.0 for the class 1
    text = unicodedata.normalize("NFKC", str(label)).casefold()
    # Letters of no width, such as a mark of the order of bytes, are of the class Cf.
    visible = "".join(c for c in text if unicodedata.category(c) != "Cf")
    return " ".join(visible.split()).translate(_LATIN_LOOKALIKES)


def told_apart(label: str, others: Iterable[str]) -> str:
    """A label as an error shows it: as its codes where another one looks the same."""
    looks = {unicodedata.normalize("NFC", _seen(other)) for other in others}
    if unicodedata.normalize("NFC", _seen(label)) in looks:
        return ascii(label)
    return repr(label)


def _seen(text: str) -> str:
    """A text as readers see it, who take letters that look alike for Latin ones."""
    visible = "".join(c for c in text if unicodedata.category(c) != "Cf")
    return visible.translate(_LATIN_LOOKALIKES)
