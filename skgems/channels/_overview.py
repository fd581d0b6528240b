"""What a person has to know of a message first, in about ten lines.

What the file is, from whom and for which exchange, which statistics it holds and over
how many rows, what can be worked out from them, and whether it is signed and agreed.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from ..disclosure import Disclosure, is_as_strict, laxest_disclosure
from ..federation import Summary, exposed_classes, load_message
from ..messages import (
    TASKS,
    Agreement,
    Message,
    check_signed,
    disclosures_in,
    labels_and_counts,
    labels_of_features,
    least_rows_of,
    listed,
    pairs_in,
    requests_in,
    rows_in_words,
    rows_of_classes,
)
from ._folder import AGREEMENT

_NO_MODEL = "no model"
# The name of a file of a reply: the number of the message, and what stands for a node.
_NAME_OF_REPLY = re.compile(r"(reply-)?\d{3,}-(?P<node>.+)\.safetensors")
# Fields of moments that are covariances, and those that are gradients.
_OF_COVARIANCES = {"triangles", "roots"}
_OF_GRADIENTS = {"gradient", "gradients", "slope", "slopes"}
# A gradient of fewer rows in effect is named: as many as a class has by default.
_FEW_ROWS = Disclosure.min_rows

_KINDS = {
    "agreement": "an agreement: what the server may ask of the nodes, and how often",
    "ledger": "a ledger: the record that a node keeps of all its answers",
    "request": "a request of the server to a node",
    "reply": "a reply of a node to a request",
    "summary": "a summary: the reply of a node to the first request",
}


def overview_of_request(message: Message, *, path: Path, method: str | None) -> dict:
    """What a request asks for, and whether the node's owner can rely on it."""
    node = message.envelope.get("node")
    lines = {
        "file": f"{_KINDS['request']} (task {message.task!r})",
        "for": "no node in particular" if node is None else f"node {node!r}",
        **_exchange_in_words(message, method),
        "asks for": f"{TASKS[message.task].asks}.",
    }
    asked = [message]
    if message.task == "join":
        asked = requests_in(message.content)
        lines["statistics"] = _sentence(TASKS[request.task].asks for request in asked)
    lines["reveals"] = _reveals(asked)
    agreement, place = _agreement_of(message, [path])
    lines["signature"] = _signature_of_request(message, agreement)
    lines["agreement"] = _agreement_in_words(message, agreement, place)
    return lines


def overview_of_reply(
    message: Message,
    *,
    path: Path,
    kind: str,
    node: str | None,
    method: str | None,
    request: Message | None,
    request_path: Path | None,
) -> dict:
    """What a reply holds, over how many rows, and what can be worked out from it."""
    parts = [message]
    if message.task == "join":
        parts = [reply for _, reply in pairs_in(message.content)]
    lines = {
        "file": f"{_KINDS[kind]} (task {message.task!r})",
        "from": "a node that is not named" if node is None else f"node {node!r}",
        **_exchange_in_words(message, method),
        "holds": _sentence(_held(part, _dropped_in(parts)) for part in parts),
        **_columns_in_words(parts),
        "rows": _rows_in_words(parts),
        "reveals": _reveals(parts),
    }
    if TASKS[message.task].limits_bytes:
        lines["bytes"] = _tree_bytes_in_words(message, path)
    agreement, place = _agreement_of(request, [request_path, path])
    lines["signature"] = _signature_of_reply(message)
    lines["agreement"] = _agreement_in_words(message, agreement, place)
    return lines


def overview_of_agreement(agreement: Agreement) -> dict:
    """What is agreed, sentence by sentence; the sentences are few."""
    return {
        "file": _KINDS["agreement"],
        "method": agreement.method,
        **agreement.says,
    }


def overview_of_ledger(node: str | None, events: Mapping[str, str]) -> dict:
    """What a node has answered, one line for each event."""
    return {
        "file": _KINDS["ledger"],
        "node": "not named" if node is None else repr(node),
        **events,
    }


# ---- what a message holds ----------------------------------------------------------


def _exchange_in_words(message: Message, method: str | None) -> dict[str, str]:
    exchange = message.envelope.get("exchange", "none: this file is not part of one")
    if method is None:
        return {"exchange": exchange}
    return {"exchange": exchange, "method": method}


def _sentence(parts: Iterable[str]) -> str:
    """A list of what a message holds or asks for, each once."""
    return f"{'; '.join(dict.fromkeys(filter(None, parts)))}."


def _is_described(part: Message) -> bool:
    return part.task == "describe"


def _held(part: Message, dropped: np.ndarray | None = None) -> str:
    """What a part of a reply holds; empty for what another part holds too.

    ``dropped`` are features that the node's classifier drops by name, (n_features,).
    """
    if part.task == "moments":
        described = _held_in_moments(part.content, dropped)
    else:
        described = _HELD[part.task](part.content) if part.task in _HELD else None
    return TASKS[part.task].asks if described is None else described


def _held_in_description(content: Mapping) -> str | None:
    network = content.get("network")
    if network is None:  # a request
        return None
    if network["output"] == "none":
        return _NO_MODEL
    if network["output"] == "module":
        arrays = network["arrays"]
    else:
        arrays = [*network["coefs"], *network["intercepts"]]
    n_numbers = sum(W.size for W in arrays)
    return f"the node's model ({n_numbers:,} numbers)"


def _held_of_front(content: Mapping) -> str | None:
    if "parts" not in content:
        return None
    statistics = [
        f"{statistic['statistic']} (step {path})"
        for path, statistic in content["parts"].items()
    ]
    return f"names of columns; statistics for the front: {listed(statistics)}"


def _held_in_moments(content: Mapping, dropped: np.ndarray | None) -> str | None:
    if "moments" not in content:
        return None
    sums = content["moments"]
    has_covariances = not _OF_COVARIANCES.isdisjoint(sums)
    words = "means and " + ("covariances" if has_covariances else "variances")
    n_features = len(sums["origin"])  # or units of hidden layers
    if dropped is not None and len(dropped) == n_features:
        n_features -= int(dropped.sum())
    by_class = "by class" if sums["groups"].max() >= 0 else "of all classes"
    held = f"{words} of {n_features} features {by_class}"
    if not _OF_GRADIENTS.isdisjoint(content):
        held += "; a gradient of the loss of the model"
    return held


# What replies to some tasks hold, by the name of the task; None of requests.
_HELD: Mapping[str, Callable[[Mapping], str | None]] = {
    "counts": lambda content: "",  # as "describe" has them
    "describe": _held_in_description,
    "front": _held_of_front,
}


def _dropped_in(parts: list[Message]) -> np.ndarray | None:
    """Return which features the node's classifier drops by name; None: none."""
    described = [part.content["network"] for part in parts if _is_described(part)]
    return described[0].get("dropped") if described else None


def _columns_in_words(parts: list[Message]) -> dict[str, str]:
    """The columns that the reply is about, by name, if it says which these are."""
    for part in parts:
        if _is_described(part):
            network = part.content["network"]
            labels = np.array(labels_of_features(network), dtype=object)
            dropped = _dropped_in(parts)
            if dropped is None:
                dropped = np.zeros(len(labels), dtype=bool)
            words = f"{listed(map(repr, labels[~dropped]))}."
            if dropped.any():
                words += (
                    " Nothing is said about columns that the node's classifier drops "
                    f"by name: {listed(map(repr, labels[dropped]))}."
                )
            return {"columns": words}
    return {}


def _rows_in_words(parts: list[Message]) -> str:
    """The number of rows, by class where it is known, and the bound of the node."""
    bounds = [least_rows_of(part) for part in parts]
    min_rows = min((bound for bound in bounds if bound is not None), default=None)
    words = next(filter(None, map(_counted, parts)), "their number is not in the file.")
    if min_rows is None or min_rows == 1:
        return words
    if parts[0].task in ("front", "survey"):  # which are not by class
        return f"{words} At least {min_rows} rows are behind each of them."
    words += f" Classes with fewer than {min_rows} rows are left out"
    left_out = listed(map(repr, _classes_left_out(parts)))
    if left_out:
        words += f": {left_out}"
    return f"{words} (min_rows={min_rows})."


def _classes_left_out(parts: list[Message]) -> list:
    """Classes that the node's classifier or rows have, but none of its sums."""
    left_out: dict[str | int | float, None] = {}
    for part in parts:
        content = part.content
        if part.task == "describe":
            network = content["network"]
            pairs = zip(network["labels"], network["seen"], strict=True)
            classes = [label for label, is_seen in pairs if is_seen]
            summed = content["rows"]["labels"]
        elif part.task == "moments":
            classes = content["labels"]
            summed = [classes[k] for k in np.unique(content["moments"]["columns"])]
        else:
            continue
        left_out |= dict.fromkeys(label for label in classes if label not in summed)
    return list(left_out)


def _counted(part: Message) -> str:
    """How many rows a part is made from; empty where it does not say that."""
    content = part.content
    counts = content.get("counts")
    labels = content.get("labels")
    if part.task == "describe":
        labels = content["rows"]["labels"]
        counts = content["rows"]["moments"]
    elif part.task == "moments":  # one count for each mean; a class may have several
        counts = rows_of_classes(content)
    elif part.task == "class_sums":
        counts = content.get("n_rows", counts)
    if counts is not None and labels is not None:
        by_class = labels_and_counts(labels, counts)
        return f"{rows_in_words(np.sum(counts))}, by class: {by_class}."
    n_rows = content.get("n_rows", content.get("count"))
    if n_rows is None or np.ndim(n_rows):  # those of boosting are packed histograms
        return ""
    return f"{rows_in_words(n_rows)}."


def _reveals(parts: Iterable[Message]) -> str:
    """What can be worked out about rows, each sentence once."""
    # Counts are in the line on rows.
    sentences = [
        _revealed(part) or TASKS[part.task].reveals
        for part in sorted(parts, key=_is_described)
        if part.task != "counts" and _held(part) != _NO_MODEL
    ]
    return " ".join(dict.fromkeys(sentences))


def _revealed(part: Message) -> str:
    """What moments of few rows reveal, in figures; empty for other tasks."""
    content = part.content
    if part.task != "moments" or "moments" not in content:
        return ""
    sums = content["moments"]
    exposed = exposed_classes(content)
    n_features = len(sums["origin"])
    if exposed:
        words = (
            f"Classes with fewer rows than features ({n_features}): "
            f"{labels_and_counts(exposed, exposed.values())}. From their covariances "
            "single rows can be recognized, and rows of whole numbers recovered."
        )
    else:
        counts = rows_of_classes(content)
        fewest = rows_in_words(np.min(counts, where=counts > 0, initial=np.inf))
        words = (
            "The fewer rows a class has, the more is revealed about each of them; the "
            f"smallest class has {fewest}."
        )
    n_effective = content.get("effective_rows")
    if n_effective is not None and n_effective < _FEW_ROWS:
        words += (
            f" The gradient is made from only {n_effective:.2g} rows in effect, on "
            "which the model is wrong or unsure."
        )
    return words


# ---- bytes about trees -------------------------------------------------------------


def _tree_bytes_in_words(message: Message, path: Path) -> str:
    """How many bytes a node has sent about trees, beside those that its rows have.

    Its other replies in the same exchange are looked for beside this one.
    """
    replies = list(_replies_beside(message, path))
    sizes = [reply.n_bytes for reply in replies if TASKS[reply.task].limits_bytes]
    sent = f"{sum(sizes):,} about trees"
    if len(sizes) > 1:
        sent += f", in the {len(sizes)} replies of this node that are here"
    summaries = [Summary(reply) for reply in replies if reply.task == "join"]
    if not summaries:
        return (
            f"{sent}. The node's first reply is not beside this one, so it cannot be "
            "said how many bytes its rows have."
        )
    n_rows = summaries[0].n_rows
    n_features = summaries[0].network.n_features_in
    n_bytes_of_rows = TASKS[message.task].bytes_of_rows(n_rows, n_features)
    comparison = (
        f"{sent}. {rows_in_words(n_rows)} of {n_features} features in bins have about "
        f"{n_bytes_of_rows:,}."
    )
    if sum(sizes) > n_bytes_of_rows:
        comparison += (
            " The node sent more bytes than its rows have, so these may follow from "
            "what it sent."
        )
    return comparison


def _replies_beside(message: Message, path: Path) -> Iterator[Message]:
    """A reply, and others of its node in its exchange whose files have such names."""
    yield message
    number_and_node = _NAME_OF_REPLY.fullmatch(path.name)
    if number_and_node is None:
        return
    for other in sorted(path.parent.iterdir()):
        name = _NAME_OF_REPLY.fullmatch(other.name)
        if other == path or name is None or name["node"] != number_and_node["node"]:
            continue
        try:
            reply = load_message(other)
            if reply.task == "join":
                Summary(reply)
        except (ValueError, OSError):  # a file that is no reply, or not a whole one
            continue
        is_of_exchange = all(
            reply.envelope.get(field) == message.envelope.get(field)
            for field in ("node", "exchange")
        )
        if is_of_exchange and reply.task in TASKS:
            yield reply


# ---- signature and agreement -------------------------------------------------------


def _agreement_of(
    request: Message | None, paths: Iterable[Path | None]
) -> tuple[Agreement | None, str]:
    """The agreement of an exchange, and where it is, in words.

    It is in the first request, or beside the folder of requests or replies.
    """
    if request is not None and "agreement" in request.envelope:
        agreement = Agreement.from_json(request.envelope["agreement"])
        return agreement, "the agreement in the first request"
    for path in paths:
        if path is None:
            continue
        for folder in (path.resolve().parent, path.resolve().parent.parent):
            if (folder / AGREEMENT).is_file():
                return Agreement.load(folder / AGREEMENT), str(folder / AGREEMENT)
    return None, ""


def _agreement_in_words(
    message: Message, agreement: Agreement | None, place: str
) -> str:
    if agreement is None:
        return "none was found beside this file."
    exchange = message.envelope.get("exchange")
    if exchange is not None and exchange != agreement.exchange:
        return f"{place} is of another exchange."
    rules = disclosures_in(message)
    if not all(is_as_strict(rule, agreement.disclosure) for rule in rules):
        return (
            f"disclosure={laxest_disclosure(rules)} is laxer than the "
            f"disclosure={agreement.disclosure} of "
            f"{place}: the server will refuse this reply."
        )
    if message.task not in agreement.tasks:
        return f"the task {message.task!r} is not agreed in {place}."
    n = agreement.tasks[message.task]
    times = "once" if n == 1 else f"{n} times"
    return f"by {place} the server may ask for this {times}."


def _signature_of_request(message: Message, agreement: Agreement | None) -> str:
    if "signature" not in message.envelope:
        return "not signed: anyone could have written this request."
    if agreement is None or agreement.public_key is None:
        return "signed, but there is no public key here to check the signature."
    try:
        check_signed(message, agreement.public_key.encode())
    except ImportError as exc:
        return f"signed, but not checked. {exc}"
    except ValueError as exc:
        return f"wrong: {exc}"
    return "signed by the server of the agreement."


def _signature_of_reply(message: Message) -> str:
    if "signature" not in message.envelope:
        return "not signed: anyone could have written this file."
    return "signed; the server checks it with the public key of the node."
