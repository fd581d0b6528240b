"""Agreements: what all parties of an exchange have accepted, before any rows speak."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from ..base import Page, Points, ResultMixin
from ..disclosure import (
    Disclosure,
    disclosure_of,
    disclosure_of_both,
    disclosure_of_min_rows,
    is_as_strict,
)
from ..moments import SMALLEST
from ._disclosed import disclosure_in_words
from ._fields import Field, Flag, Json, Labels, Number, Place, Table, Text, check_fields
from ._limits import MOST_COUNTED, MOST_HEADER, MOST_JUDGED, MOST_ROWS
from ._message import Message
from ._packing import naming, read_bytes, write_bytes
from ._signing import check_signed, signed
from ._summaries import (
    contents_of,
    disclosures_in,
    models_in,
    requests_in,
)
from ._tasks import TASKS, request_in
from ._terms import TERMS, Terms
from ._words import listed

# The file of an agreement in the folder of an exchange.
AGREEMENT = "agreement.json"
# Hidden layers that nodes may be asked about, where nobody says how many there are.
_LAYERS = 3
_ID = re.compile(r"[0-9a-f]{32}")


class NotAgreedError(ValueError):
    """A request asks for something that the node has not agreed to.

    Nothing was computed.
    """


_FIELDS: Mapping[str, Field] = {
    "exchange": Text(),
    "method": Text(),
    "settings": Json(),
    "further_settings": Json(default={}),
    "tasks": Json(),
    "disclosure": Table(
        {
            "rows": Number(low=2, high=MOST_ROWS, whole=True),
            "cell": Number(low=1, high=MOST_ROWS, whole=True),
            "unknowns": Number(low=SMALLEST, high=1),
            "min_rows": Number(low=1, high=MOST_ROWS, whole=True),
        },
        default=None,
    ),
    "radii": Flag(),
    "nodes": Labels(default=None),
    "classes": Labels(default=None),
    "feature_names": Labels(default=None),
    "public_key": Text(default=None),
}
# What agreements of older versions have in place of a rule.
_MIN_ROWS = Number(low=1, high=MOST_ROWS, whole=True)


@dataclass(frozen=True, kw_only=True, repr=False)
class Agreement(ResultMixin):
    """What all parties of an exchange have accepted; a node holds the server to it.

    The server makes the agreement and sends its file to every node. A person at the
    node reads it (``skgems inspect``) and accepts it by passing it to
    :func:`skgems.answer` or :func:`~skgems.guard.reply_to`. The node then refuses
    every request that the agreement does not allow. In most cases it is made by
    :meth:`of`.

    Parameters
    ----------
    exchange : str
        Identifier of the exchange: 32 hexadecimal digits, drawn anew for each exchange.
    method : str
        Name of the aggregator.
    settings : dict
        Parameters of the aggregator that matter at the nodes.
    further_settings : dict, default={}
        The other parameters that decide what the nodes are asked. A node makes the
        requests of the first message from these and `settings` itself, and answers no
        others.
    tasks : dict of str to int
        Number of times that each task may be asked. A task that is not listed may not
        be asked at all.
    disclosure : Disclosure, "auto" or None, default="auto"
        The rule for what nodes tell of their rows; "auto" is ``Disclosure()``. Where a
        node has a rule of its own, the stricter of both holds. The server refuses a
        reply that was made under a laxer one. None is for parties that are one
        organization: anything may be told.
    radii : bool, default=False
        Whether numbers about single rows may be sent: the distances from which
        good-enough spaces by accuracy are made.
    nodes : list of str, default=None
        Names of the nodes that take part. If None, nodes do not check who takes part.
    classes : list, default=None
        Classes of the rows of all nodes. If None, they are not agreed.
    feature_names : list, default=None
        Names of the features of all nodes. If None, they are not agreed.
    public_key : str, default=None
        The server's public ed25519 key in PEM form. If given, requests must be signed
        by it; if None, requests are not signed.

    Raises
    ------
    ValueError
        If a field is wrong; the text names it.

    Examples
    --------
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.guard import Agreement
    >>> agreed = Agreement.of(GEMSLogisticAggregator(n_rounds=3, random_state=0))
    >>> agreed.tasks
    {'join': 1, 'evaluate': 2, 'score': 1, 'metrics': 1}
    >>> Agreement.from_json(agreed.to_json()) == agreed
    True
    """

    exchange: str
    method: str
    settings: Mapping
    tasks: Mapping[str, int]
    further_settings: Mapping = field(default_factory=dict)
    disclosure: Disclosure | str | None = "auto"
    radii: bool = False
    nodes: list | None = None
    classes: list | None = None
    feature_names: list | None = None
    public_key: str | None = None

    def __post_init__(self) -> None:
        place = Place("agreement")
        object.__setattr__(self, "disclosure", disclosure_of(self.disclosure))
        check_fields(self._content, _FIELDS, place)
        if not _ID.fullmatch(self.exchange):
            raise place.at("exchange").wrong("is not 32 hexadecimal digits")
        for task, n in self.tasks.items():
            if task not in TASKS or type(n) is not int or not 0 <= n <= MOST_COUNTED:
                raise place.at("tasks").wrong("is not a table of how often to ask")

    @classmethod
    def of(
        cls,
        aggregator,
        *,
        fits=1,
        n_hidden_layers=_LAYERS,
        disclosure="auto",
        **further_fields,
    ) -> "Agreement":
        """Make the agreement of a new exchange, for all that an aggregator asks.

        Parameters
        ----------
        aggregator : BaseAggregator
            The aggregator with the parameters to agree on. Its ``estimators`` are
            ignored.
        fits : int, default=1
            Number of models that may be made. Increase it for a parameter search.
        n_hidden_layers : int, default=3
            Largest number of hidden layers of the nodes' networks.
        disclosure : Disclosure, "auto" or None, default="auto"
            The rule for what nodes tell of their rows. With "auto" it is the parameter
            of the aggregator. If both are given, the stricter one is agreed on.
        **further_fields : dict
            Other parameters of the class, such as ``nodes``.

        Returns
        -------
        agreement : Agreement
            The agreement; save it and send its file to the nodes.

        Raises
        ------
        TypeError
            If the aggregator does not ask nodes by messages.
        """
        terms = aggregator._agreed_terms
        if terms is None:
            raise TypeError(
                f"{type(aggregator).__name__} sends no requests to nodes, so there is "
                "nothing to agree on. Give it the fitted estimators."
            )
        return cls.of_terms(
            terms,
            fits=fits,
            n_hidden_layers=n_hidden_layers,
            disclosure=disclosure_of_both(aggregator.disclosure, disclosure),
            **further_fields,
        )

    @classmethod
    def of_terms(
        cls,
        terms: Terms,
        *,
        fits: int = 1,
        n_hidden_layers: int = _LAYERS,
        **further_fields,
    ) -> "Agreement":
        """Make the agreement of a new exchange from the terms of a method."""
        if terms.privacy is not None:  # the noise is the rule
            further_fields["disclosure"] = None
        n_times = _times_of_fits(terms, fits=fits, n_hidden_layers=n_hidden_layers)
        settings = json.loads(json.dumps(terms.settings_at_nodes))
        needs_radii = any(map(tells_radii, terms.first_requests())) or any(
            n > 0 and TASKS[name].tells_radii is not None for name, n in n_times.items()
        )
        return cls(
            exchange=uuid4().hex,
            method=terms.method,
            settings=settings,
            further_settings=json.loads(json.dumps(terms.further_settings)),
            tasks={name: n_times[name] for name in TASKS if n_times.get(name, 0) > 0},
            radii=needs_radii,
            **further_fields,
        )

    @property
    def _content(self) -> dict:
        """The fields that are set, as JSON has them; the rule is among them if None."""
        rule = self.disclosure
        content = {
            name: value for name, value in vars(self).items() if value is not None
        }
        return content | {"disclosure": None if rule is None else rule.as_dict()}

    def to_json(self) -> str:
        """Return the agreement as a text in JSON."""
        return json.dumps({"skgems": "agreement", **self._content}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Agreement":
        """Make an agreement from the text of `to_json`.

        Raises
        ------
        ValueError
            If a field is wrong; the text names it.
        """
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as exc:
            raise ValueError(f"it is not an agreement: {exc!s:.200}.") from None
        if not isinstance(content, dict) or content.pop("skgems", None) != "agreement":
            raise ValueError("it is not an agreement of skgems.")
        place = Place("agreement")
        if "min_rows" in content:  # of an older version, which had no other rule
            place.deny("disclosure" in content, "min_rows", "is in disclosure")
            check_fields(content, {**_FIELDS, "min_rows": _MIN_ROWS}, place)
            rule = disclosure_of_min_rows(content.pop("min_rows"))
            return cls(**content, disclosure=rule)
        check_fields(content, _FIELDS, place)
        place.deny("disclosure" not in content, "disclosure", "is missing")
        rule = content.pop("disclosure")
        if rule is not None:
            with naming("agreement.disclosure"):
                rule = Disclosure(**rule)
        return cls(**content, disclosure=rule)

    def save(self, path) -> None:
        """Write the agreement to a file, for example ``"agreement.json"``.

        An existing file is replaced.
        """
        write_bytes(path, self.to_json().encode("utf-8"), mode=0o644)

    @classmethod
    def load(cls, path) -> "Agreement":
        """Read and check the file of an agreement, which does not have to be trusted.

        Raises
        ------
        ValueError
            If a field is wrong; the text names the file and the field.
        """
        file_bytes = read_bytes(path, most=MOST_HEADER)
        with naming(path):
            return cls.from_json(file_bytes.decode("utf-8"))

    def _page(self) -> Page:
        says = Points(
            heading="What all parties accept", sentences=list(self.says.values())
        )
        return Page(title=f"Agreement for {self.method}", parts=[says])

    @property
    def says(self) -> dict[str, str]:
        """A sentence for each part of it, as ``skgems inspect`` prints them."""
        sentences = {
            "exchange": f"The agreement holds for the exchange {self.exchange} only.",
            **self._sentences_on_the_method(),
        }
        for task, n in self.tasks.items():
            times = "once" if n == 1 else f"{n} times"
            sentences[f"tasks.{task}"] = (
                f"The server may ask {times} for {TASKS[task].asks}."
            )
        sentences["disclosure"] = disclosure_in_words(self.disclosure)
        if self.disclosure is not None:
            sentences["disclosure"] += (
                " A node may have a stricter rule. The server refuses replies that "
                "were made under a laxer one."
            )
        if self.radii:
            sentences["radii"] = (
                "Numbers about single rows may be sent: distances by which the model "
                "may change before it loses a row, without saying which row."
            )
        if self.method in TERMS:
            sentences |= TERMS[self.method].sentences_on(self.settings)
        return sentences | self._sentences_on_the_parties()

    def _sentences_on_the_method(self) -> dict[str, str]:
        """Return sentences on settings, transformers, and what trusts the server."""
        sentences = {}
        settings = {
            name: value
            for name, value in {**self.settings, **self.further_settings}.items()
            if name not in ("front", "fronts", "methods")
        }
        if settings:
            sentences["settings"] = (
                f"The settings of {self.method} are {_settings_in_words(settings)}."
            )
        steps = [step for front in self._fronts for step in _steps_in_words(front)]
        if steps:
            sentences["front"] = (
                f"Rows pass first through {', '.join(dict.fromkeys(steps))}. "
                "Statistics are of the columns that come out."
            )
        if self._trusted:
            sentences["trust"] = (
                "Accept this only if you trust the server, which can have single rows "
                f"given away by {listed(self._trusted)}."
            )
        return sentences

    def _sentences_on_the_parties(self) -> dict[str, str]:
        """Return sentences on nodes, what their rows are of, and the server's key."""
        sentences = {}
        words = {
            "nodes": "The nodes are",
            "classes": "The classes are",
            "feature_names": "The features are",
        }
        for name, beginning in words.items():
            values = getattr(self, name)
            if values is not None:
                sentences[name] = f"{beginning} {', '.join(map(repr, values))}."
        sentences["public_key"] = (
            "Requests must be signed by the server."
            if self.public_key is not None
            else "Requests are not signed: whoever writes one is taken for the server."
        )
        return sentences

    def check_sender(self, request: Message, name: str) -> None:
        """Raise unless the server of this exchange sent a request to this node.

        Raises
        ------
        NotAgreedError
            If the exchange is another one, or the node is not among those agreed.
        SignatureError
            If requests must be signed, and the server has not signed this one.
        """
        exchange = request.envelope.get("exchange")
        if exchange is None:
            raise NotAgreedError(
                "the request names no exchange, but the agreement is for the exchange "
                f"{self.exchange!r}."
            )
        if exchange != self.exchange:
            raise NotAgreedError(
                f"the request is for the exchange {exchange!r:.40}, but the agreement "
                f"is for {self.exchange!r}."
            )
        if self.public_key is not None:
            check_signed(request, self.public_key.encode())
        if self.nodes is not None and name not in self.nodes:
            raise NotAgreedError(
                f"node {name!r} is not among the agreed nodes {self.nodes}."
            )

    def check_asked(self, request: Message, answered: Mapping[str, int]) -> None:
        """Raise NotAgreedError unless a request is agreed.

        ``answered`` has the number of times that each task was answered before.
        """
        task = request.task
        most_times = self.tasks.get(task, 0)
        if not most_times:
            raise NotAgreedError(
                f"the task {task!r} is not agreed; the agreed tasks are "
                f"{list(self.tasks)}."
            )
        if answered.get(task, 0) >= most_times:
            raise NotAgreedError(
                f"the task {task!r} may be asked {most_times} times by the agreement, "
                f"and was answered {answered[task]} times already."
            )
        self._check_judged(request)
        for content in contents_of(request):
            if "method" in content:
                self._check_method(content)
            if content.get("front") is not None:
                self._check_front(content["front"])
            elif self.settings.get("front") and not TASKS[task].is_of_tables:
                raise NotAgreedError(
                    f"the request ({task!r}) is about rows before the agreed front, "
                    "but only what they are behind it is agreed. The server has to "
                    "send the front with each request."
                )
        if not self.radii and tells_radii(request):
            raise NotAgreedError(
                "the agreement does not allow numbers about single rows (radii of "
                "good-enough spaces)."
            )

    def _check_judged(self, request: Message) -> None:
        """Raise if a request has more models judged than there are methods agreed."""
        n_models = len(models_in(request))
        n_methods = len(self.methods)
        if n_models > n_methods:
            raise NotAgreedError(
                f"the request asks to judge {n_models} models, but only {n_methods} "
                "methods are agreed, with one model each."
            )

    @property
    def methods(self) -> list:
        """Return what is agreed of each method if several are tried; else nothing."""
        methods = self.settings.get("methods", [])
        is_list = isinstance(methods, list) and all(
            isinstance(agreed, Mapping) for agreed in methods
        )
        return methods if is_list else []

    @property
    def _trusted(self) -> list[str]:
        """List what a server could misuse: tasks, and layers that it brings."""
        trusted = [task for task in self.tasks if TASKS[task].accepted_by == "person"]
        methods = [self.method, *(str(agreed.get("method")) for agreed in self.methods)]
        if any(TERMS[method].merges_layers for method in methods if method in TERMS):
            trusted.append("hidden layers of its own")
        return trusted

    @property
    def _fronts(self) -> list[Mapping]:
        """List the agreed front, or those of several methods."""
        fronts = [self.settings.get("front"), *self.settings.get("fronts", ())]
        return [front for front in fronts if front]

    def _check_front(self, front: Mapping) -> None:
        """Raise unless a front is one of those agreed, whatever it is fitted to."""
        agreed = [unfitted_front(settings) for settings in self._fronts]
        unfitted = unfitted_front(front)
        if unfitted not in agreed:
            raise NotAgreedError(f"the front {unfitted:.200} is not agreed.")

    def _check_method(self, content: Mapping) -> None:
        """Raise unless method and settings of a request for a summary are agreed."""
        method = content["method"]
        settings = content["settings"]
        if "methods" in self.settings:
            self.further_settings_of(method, settings)
            return
        if method != self.method:
            raise NotAgreedError(
                f"its method is {method!r:.80}, but the agreed method is "
                f"{self.method!r}."
            )
        for name in sorted(settings.keys() | self.settings.keys()):
            value = settings.get(name)
            agreed = self.settings.get(name)
            if value != agreed:
                raise NotAgreedError(
                    f"its settings have {name}={value!r:.80}, but {name}={agreed!r} is "
                    "agreed."
                )

    def further_settings_of(self, method: str, settings: Mapping) -> Mapping:
        """Return the `further_settings` agreed for a method with these settings."""
        if "methods" not in self.settings:
            return self.further_settings
        # Of several methods; what fronts they have is agreed by itself.
        plain = {name: value for name, value in settings.items() if name != "front"}
        for agreed in self.methods:
            if (agreed.get("method"), agreed.get("settings")) == (method, plain):
                return agreed.get("further_settings", {})
        raise NotAgreedError(
            f"the method {method!r:.80} with the settings {plain!r:.200} is not agreed."
        )

    def check_bound(self, reply: Message, name: str) -> None:
        """Raise ValueError if a reply was made under a laxer rule than agreed."""
        for rule in disclosures_in(reply):
            if not is_as_strict(rule, self.disclosure):
                raise ValueError(
                    f"Node {name!r} answered with disclosure={rule}, but all parties "
                    f"have agreed on disclosure={self.disclosure}, so its reply "
                    f"({reply.task!r:.40}) is not used. Have the node answer again "
                    "under the agreed rule or a stricter one. Or agree on its rule in "
                    "a new exchange: give disclosure to Agreement.of or to the "
                    "channel, or type skgems start --disclosure."
                )

    def check_modest(self) -> None:
        """Raise NotAgreedError if only a person may accept so much.

        A node calls it where it was given no agreement: it then accepts no more than
        what an honest exchange asks for.
        """
        for task, n in self.tasks.items():
            if n > TASKS[task].most:
                raise NotAgreedError(
                    f"the server would ask {n} times for {task!r}. More than "
                    f"{TASKS[task].most} are accepted only from a person who has read "
                    "the agreement: pass agreement=."
                )
        if len(self.methods) > MOST_JUDGED:
            raise NotAgreedError(
                f"the server would choose among {len(self.methods)} methods. More "
                f"than {MOST_JUDGED} are accepted only from a person who has read the "
                "agreement: pass agreement=."
            )

    def check_rows(self, labels: list, feature_names: list | None) -> None:
        """Raise NotAgreedError if rows have other classes or features than agreed."""
        classes = labels if self.classes is None else self.classes
        others = sorted(set(labels) - set(classes), key=str)
        if others:
            raise NotAgreedError(
                f"rows have the classes {others}, but the agreed classes are {classes}."
            )
        if self.feature_names is None or feature_names is None:
            return
        if list(feature_names) != self.feature_names:
            raise NotAgreedError(
                f"rows have the features {list(feature_names)[:5]}..., but the agreed "
                f"features are {self.feature_names[:5]}..."
            )


def _times_of_fits(terms: Terms, *, fits: int, n_hidden_layers: int) -> dict[str, int]:
    """Return how often some fits ask for each task, by its name."""
    n_times_of_fit = terms.most_requests(n_hidden_layers)
    if n_times_of_fit is None:
        n_times_of_fit = {name: task.most for name, task in TASKS.items()}
    n_times = {name: n * fits for name, n in n_times_of_fit.items()}
    for name, task in TASKS.items():
        if task.is_summary:  # once for all fits
            n_times[name] = n_times_of_fit.get(name, 1)
        if task.is_of_finished_model:
            # Of many models, answers would tell where single rows are.
            n_times[name] = int(terms.makes_model)
        if task.fits_front and terms.front is not None and terms.privacy is None:
            n_times[name] = fits * terms.front.most_messages
    return n_times


def _settings_in_words(settings: Mapping) -> str:
    """Return settings as "name=value, name=value", each at most as long as a line."""
    return ", ".join(
        f"{name}={_value_in_words(value):.80}"
        for name, value in settings.items()
        if value is not None
    )


def _value_in_words(value: object) -> str:
    """Return a setting in words; of a part that has a name, its name and settings."""
    if not isinstance(value, Mapping) or "name" not in value:
        return json.dumps(value)
    settings = {name: inner for name, inner in value.items() if name != "name"}
    return f"{value['name']}({_settings_in_words(settings)})"


def _steps_in_words(front: object) -> Iterator[str]:
    """Yield the transformers of a front, which may be of any form, with parameters."""
    if isinstance(front, list):
        for part in front:
            yield from _steps_in_words(part)
    if not isinstance(front, Mapping):
        return
    params = front.get("params")
    if isinstance(params, Mapping):
        settings = f" ({_settings_in_words(params)})" if params else ""
        yield f"{front.get('kind')!s:.80}{settings}"
        return
    for part in front.values():
        yield from _steps_in_words(part)


def unfitted_front(front: Mapping) -> str:
    """Return a front as a text, without the state that its steps are fitted to.

    5 and 5.0 make different texts, although they are equal. The order of names does not
    matter.
    """
    names = ("tree", "bounds", "drop_identifiers")
    return json.dumps({name: front.get(name) for name in names}, sort_keys=True)


def as_agreement(agreement: Agreement | str | os.PathLike) -> Agreement:
    """Return the agreement, after reading its file if a path is given."""
    if isinstance(agreement, str | os.PathLike):
        return Agreement.load(agreement)
    if not isinstance(agreement, Agreement):
        raise TypeError(
            f"agreement must be an Agreement or the path of one, got {agreement!r}."
        )
    return agreement


def tells_radii(request: Message) -> bool:
    """Report whether a reply holds distances of single rows."""
    requests_within = requests_in(request)
    if requests_within:
        return any(map(tells_radii, requests_within))
    task = TASKS[request.task]
    return task.tells_radii is not None and task.tells_radii(request_in(request))


def sealed(message: Message, agreement: Agreement, private_key=None) -> Message:
    """Return a request with its exchange on the envelope, signed if there is a key.

    The first request of an exchange also gets the agreement.
    """
    message = message.with_envelope(exchange=agreement.exchange)
    if TASKS[message.task].begins_exchange:
        message = message.with_envelope(agreement=agreement.to_json())
    return message if private_key is None else signed(message, private_key)
