# SPDX-License-Identifier: BSD-3-Clause
"""Run the golden cases of any checkout; read what another checkout has kept of its own.

``python tests/golden/run.py CHECKOUT records.json KEPT`` writes what came out of the
cases to a file, and into the folder KEPT a pickle of each aggregate and the bytes of
each message. ``python tests/golden/run.py --read CHECKOUT records.json KEPT`` writes
what this checkout reads there. The checkout may be of an older commit, whose library
and cases stand in its own folders.
"""

from __future__ import annotations

import json
import pickle
import sys
import warnings
from copy import deepcopy
from pathlib import Path

INDEX = "index.json"


def load(checkout: Path):
    """Have the library and the cases of a checkout be those that are imported."""
    sys.path[:1] = [str(checkout), str(checkout / "tests")]
    import skgems

    if not Path(skgems.__file__).is_relative_to(checkout):
        raise ImportError(f"{skgems.__file__} is not in {checkout}")


def run(kept: Path) -> dict:
    """The records of a checkout's own cases, made by its own library."""
    from golden.cases import AGGREGATORS
    from golden.records import record

    from skgems import local

    # The name of either commit.
    clear_cache = getattr(local, "clear_cache", None) or local.forget
    records, index = {}, {}
    for kind, cases in AGGREGATORS.items():
        for name, case in cases.items():
            clear_cache()
            results: list = []
            path = f"{kind}/{name}"
            try:
                records[path] = record(_remembering(case, results))
                index[path] = keep(results[0], kept / f"{len(index):04d}")
            except Exception as error:
                records[path] = {"error": repr(error)}
    (kept / INDEX).write_text(json.dumps(index), encoding="utf-8")
    return records


def _remembering(case, results: list):
    """The same case, whose result is put into a list, too."""

    def remembered():
        results.append(case())
        return results[0]

    return remembered


# ---- what the next commit reads -----------------------------------------------


def keep(result, folder: Path) -> dict:
    """Write what a case returned; say what is there, with the digests of messages."""
    from skgems.federation import Message

    folder.mkdir(parents=True)
    aggregate, X_test, *more = (
        (None, None, result) if isinstance(result, dict) else result
    )
    entry = {"folder": folder.name, "has_pickle": False, "messages": {}}
    if aggregate is not None:
        try:
            data = pickle.dumps((aggregate, X_test))
        except (pickle.PicklingError, AttributeError, TypeError):
            pass  # of a class that is defined in a function, or a net's lambda
        else:
            (folder / "aggregate.pickle").write_bytes(data)
            entry["has_pickle"] = True
    for extra in more:
        for name, data in extra.get("kept", {}).items():
            (folder / name).write_bytes(data)
            entry["messages"][name] = Message.from_bytes(data).digest
    return entry


def read_all(kept: Path) -> dict:
    """What this checkout reads of what another has kept, by case.

    Predictions of pickles, and of fits to files; digests of messages, and the names of
    those whose digest is another one.
    """
    index = json.loads((kept / INDEX).read_text(encoding="utf-8"))
    records = {}
    for path, entry in index.items():
        try:
            records[path] = read(entry, kept / entry["folder"])
        except Exception as error:
            records[path] = {"error": repr(error)}
    return records


def read(entry: dict, folder: Path) -> dict:
    from golden.records import predictions

    from skgems.federation import Message

    messages = {
        name: Message.from_bytes((folder / name).read_bytes())
        for name in entry["messages"]
    }
    digests = {name: message.digest for name, message in messages.items()}
    others = [name for name in digests if digests[name] != entry["messages"][name]]
    found = {"digests": digests, "other_digests": others}
    if entry["has_pickle"]:
        pickled = (folder / "aggregate.pickle").read_bytes()
        aggregate, X_test = pickle.loads(pickled)
        found["pickle"] = predictions(aggregate, X_test)
        if again := fitted_to_files(aggregate, messages):
            found["files"] = predictions(again, X_test)
    return found


def fitted_to_files(aggregate, messages: dict):
    """The same aggregator, fitted to its nodes' files as they were read; or None.

    A clone would forget what its front was fitted to.
    """
    from skgems.federation import Summary

    of_columns = [m for name, m in messages.items() if name.startswith("front ")]
    if of_columns:
        return deepcopy(aggregate).set_params(summaries=of_columns).fit()
    summaries = {
        name.removeprefix("summary "): Summary(message)
        for name, message in messages.items()
        if name.startswith("summary ")
    }
    if not summaries:
        return None
    estimators = [summaries.get(member.name, member) for member in aggregate.estimators]
    return deepcopy(aggregate).set_params(estimators=estimators).fit()


def main(*words: str) -> None:
    reads = words[0] == "--read"
    checkout, records, kept = map(Path, words[1:] if reads else words)
    load(checkout.resolve())
    found = read_all(kept) if reads else run(kept)
    records.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
