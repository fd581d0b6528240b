"""What a person has to know of a message first.

What the file is, from whom and for which exchange, what it holds, the figures of its
fields, what can be worked out from them, and whether it is signed and agreed.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..disclosure import is_as_strict, laxest_disclosure
from ..messages import (
    AGREEMENT,
    TASKS,
    Agreement,
    Message,
    check_signed,
    disclosures_in,
    is_summary,
    labels_and_counts,
    pairs_in,
    reply_in,
    requests_in,
    rows_in_words,
    sentences_in,
    told_in_words,
)
from ..parties import Summary, load_message
from ..private import noise_of
from ..steps import Columns

# The name of a file of a reply: the number of the message, and what stands for a node.
_NAME_OF_REPLY = re.compile(r"(reply-)?\d{3,}-(?P<node>.+)\.safetensors")

KINDS = {
    "agreement": "an agreement: what the server may ask of the nodes, and how often",
    "ledger": "a ledger: the record that a node keeps of all its answers",
    "request": "a request of the server to a node",
    "reply": "a reply of a node to a request",
    "summary": "a summary: the reply of a node to the first request",
}
# What is said of the fields beside a vector with noise.
BESIDE_NOISE = (
    "They hold what is public, and are the same whatever the rows are. The number of "
    "rows, the labels that were seen and the classifier of the node are not told."
)


def overview_of_request(message: Message, *, path: Path, method: str | None) -> dict:
    """Describe a request, and whether the node's owner can rely on it."""
    node = message.envelope.get("node")
    lines = {
        "file": f"{KINDS['request']} (task {message.task!r})",
        "for": "no node in particular" if node is None else f"node {node!r}",
        **_exchange_in_words(message, method),
        "asks for": f"{TASKS[message.task].asks}.",
    }
    asked = [message]
    if is_summary(message):
        asked = requests_in(message)
        lines["statistics"] = _sentence(TASKS[request.task].asks for request in asked)
    noise = noise_of(asked)
    if noise:
        lines["noise"] = noise
    lines["reveals"] = _reveals(asked, are_replies=False)
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
    """Describe a reply: its rows, and what can be worked out from it."""
    noise = noise_of(_answered_by(message, request))
    parts = _parts_held(message, have_noise=bool(noise))
    lines = {
        "file": f"{KINDS[kind]} (task {message.task!r})",
        "from": "a node that is not named" if node is None else f"node {node!r}",
        **_exchange_in_words(message, method),
        "holds": _sentence(map(_held, parts)),
        **({"other fields": BESIDE_NOISE} if noise else _figures(message)),
        "reveals": _reveals(parts, are_replies=True),
    }
    if noise:
        lines["noise"] = noise
    guess = told_in_words(message, n_columns=_n_columns_of(request))
    if guess:
        lines["guess"] = guess
    if TASKS[message.task].limits_bytes:
        lines["bytes"] = _tree_bytes_in_words(message, path)
    agreement, place = _agreement_of(request, [request_path, path])
    lines["signature"] = _signature_of_reply(message)
    lines["agreement"] = _agreement_in_words(message, agreement, place)
    return lines


# ---- what a message holds ----------------------------------------------------------


def _answered_by(reply: Message, request: Message | None) -> list[Message]:
    """Return the requests that a reply answers, as far as they are known."""
    if is_summary(reply):
        return [request for request, _ in pairs_in(reply.content)]
    return [] if request is None else [request]


def _parts_held(message: Message, *, have_noise: bool) -> list[Message]:
    """Return the replies within a message; beside noise what is public is none."""
    replies = [message]
    if is_summary(message):
        replies = [reply for _, reply in pairs_in(message.content)]
        replies = [r for r in replies if not TASKS[r.task].repeats_description]
    if have_noise:
        return [reply for reply in replies if TASKS[reply.task].discloses == "noise"]
    return replies


def _exchange_in_words(message: Message, method: str | None) -> dict[str, str]:
    exchange = message.envelope.get("exchange", "none: this file is not part of one")
    if method is None:
        return {"exchange": exchange}
    return {"exchange": exchange, "method": method}


def _sentence(parts: Iterable[str]) -> str:
    """A list of what a message holds or asks for, each once."""
    return f"{'; '.join(dict.fromkeys(parts))}."


def _is_without_model(part: Message) -> bool:
    if not TASKS[part.task].describes:
        return False
    network = part.content.get("network")
    return network is not None and network["output"] == "none"


def _held(part: Message) -> str:
    """Return what a part of a reply holds, as its task says it."""
    if _is_without_model(part):
        return "no model; the number of rows of each class"
    return TASKS[part.task].asks


def _figures(message: Message) -> dict[str, str]:
    """Return the figures that fields of a reply say, by the field and its table.

    Answers within a first message are numbered, and have one line for all of them.
    """
    figures: dict[str, dict[str, None]] = {}
    for path, sentences in sentences_in(message):
        if sentences.figures:
            *_, table, name = path.split(".")
            field = name if table.isdecimal() else f"{table}.{name}"
            figures.setdefault(field, {})[sentences.figures] = None
    return {field: " ".join(texts) for field, texts in figures.items()}


def _reveals(parts: Iterable[Message], *, are_replies: bool) -> str:
    """Return what can be worked out about rows, each sentence once."""
    parts = sorted(parts, key=lambda part: TASKS[part.task].describes)
    sentences = [_exposed_in_words(part) for part in parts if are_replies]
    sentences += [
        TASKS[part.task].reveals for part in parts if not _is_without_model(part)
    ]
    return " ".join(dict.fromkeys(filter(None, sentences)))


def _n_columns_of(request: Message | None) -> int | None:
    """Return how many columns enter the front of a request; None: it says none."""
    front = None if request is None else request.content.get("front")
    columns = None if front is None else front.get("columns")
    return None if columns is None else Columns.from_content(columns).n


def _exposed_in_words(part: Message) -> str:
    """Return groups of rows whose covariances reveal them; empty if there are none."""
    task = TASKS[part.task]
    if task.exposed is None:
        return ""
    exposed = task.exposed(reply_in(part))
    if not exposed.n_rows:
        return ""
    return (
        f"Classes with fewer rows than features ({exposed.n_columns}): "
        f"{labels_and_counts(exposed.n_rows, exposed.n_rows.values())}. From their "
        "covariances single rows can be recognized, and rows of whole numbers "
        "recovered."
    )


# ---- bytes about trees -------------------------------------------------------------


def _tree_bytes_in_words(message: Message, path: Path) -> str:
    """Say how many bytes a node has sent about trees, and how many its rows have.

    Its other replies in the same exchange are looked for beside this one.
    """
    replies = list(_replies_beside(message, path))
    sizes = [reply.n_bytes for reply in replies if TASKS[reply.task].limits_bytes]
    sent = f"{sum(sizes):,} about trees"
    if len(sizes) > 1:
        sent += f", in the {len(sizes)} replies of this node that are here"
    summaries = [Summary(reply) for reply in replies if is_summary(reply)]
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
    """Yield a reply, and others of its node in its exchange that are beside it."""
    yield message
    number_and_node = _NAME_OF_REPLY.fullmatch(path.name)
    if number_and_node is None:
        return
    for other in sorted(path.parent.iterdir()):
        name = _NAME_OF_REPLY.fullmatch(other.name)
        if other == path or name is None or name["node"] != number_and_node["node"]:
            continue
        reply = _reply_in(other)
        if reply is not None and all(
            reply.envelope.get(field) == message.envelope.get(field)
            for field in ("node", "exchange")
        ):
            yield reply


def _reply_in(path: Path) -> Message | None:
    """Return the reply in a file; None for one that is no reply, or not a whole one."""
    try:
        reply = load_message(path)
        if is_summary(reply):
            Summary(reply)
    except (ValueError, OSError):
        return None
    return reply if reply.task in TASKS else None


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
