# SPDX-License-Identifier: BSD-3-Clause
"""Run the golden cases of any checkout; read what another checkout has kept of its own.

``python tests/golden/run.py CHECKOUT records.json KEPT`` writes what came out of the
cases to a file, and into the folder KEPT a pickle of each aggregate and the bytes of
each message. ``python tests/golden/run.py --read CHECKOUT records.json KEPT KEPT_HERE``
writes what this checkout reads in the folder of another one, beside that of its own.
The checkout that runs may be of an older commit, whose library and cases stand in its
own folders.
"""

from __future__ import annotations

import json
import pickle
import sys
import warnings
from functools import partial
from pathlib import Path

INDEX = "index.json"
PICKLE = "aggregate.pickle"


def load(checkout: Path):
    """Have the library and the cases of a checkout be those that are imported."""
    sys.path[:1] = [str(checkout), str(checkout / "tests")]
    import skgems

    if not Path(skgems.__file__).is_relative_to(checkout):
        raise ImportError(f"{skgems.__file__} is not in {checkout}")


def run(folder: Path) -> dict:
    """The records of a checkout's own cases, made by its own library.

    Pickles and messages of the cases are written into the folder.
    """
    from golden.cases import AGGREGATORS
    from golden.records import record

    from skgems import local

    # The name of either commit.
    clear_cache = getattr(local, "clear_cache", None) or local.forget
    records = {}
    index = {}
    for kind, cases in AGGREGATORS.items():
        for name, case in cases.items():
            clear_cache()
            results: list = []
            path = f"{kind}/{name}"
            try:
                records[path] = record(_remembering(case, results))
                index[path] = keep(results[0], folder / f"{len(index):04d}")
            except Exception as error:
                records[path] = {"error": repr(error)}
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")
    return records


def _remembering(case, results: list):
    """The same case, whose result is put into a list, too."""

    def remembered():
        results.append(case())
        return results[0]

    return remembered


# ---- what the next commit reads -----------------------------------------------


def keep(returned, folder: Path) -> dict:
    """Write what a case returned; list what was written, with digests of messages."""
    from skgems.messages import Message

    folder.mkdir(parents=True)
    if isinstance(returned, dict):
        returned = (None, None, returned)
    aggregate, X_test, *further_dicts = returned
    entry = {"folder": folder.name, "has_pickle": False, "messages": {}}
    if aggregate is not None:
        try:
            pickled = pickle.dumps((aggregate, X_test))
        except (pickle.PicklingError, AttributeError, TypeError):
            pass  # of a class that is defined in a function, or a net's lambda
        else:
            (folder / PICKLE).write_bytes(pickled)
            entry["has_pickle"] = True
    for further in further_dicts:
        for name, content in further.get("kept", {}).items():
            (folder / name).write_bytes(content)
            entry["messages"][name] = Message.from_bytes(content).digest
    return entry


def read_all(root: Path, root_here: Path) -> dict:
    """What this checkout reads in the folder that another has written, by case.

    Each case has a dict with the outcomes of reading its "pickle", its "messages" and
    its "files", as far as there are any. The second folder is that of this checkout.
    """
    index = json.loads((root / INDEX).read_text(encoding="utf-8"))
    index_here = json.loads((root_here / INDEX).read_text(encoding="utf-8"))
    records = {}
    for case, entry in index.items():
        folder = root / entry["folder"]
        entry_here = index_here.get(case)
        readers = {}
        if entry["has_pickle"]:
            readers["pickle"] = partial(read_pickle, folder)
        if entry["messages"]:
            readers["messages"] = partial(read_messages, entry, folder)
        if _has_files(entry) and entry_here and entry_here["has_pickle"]:
            folder_here = root_here / entry_here["folder"]
            readers["files"] = partial(fit_to_files, entry, folder, folder_here)
        records[case] = {part: _attempt(reader) for part, reader in readers.items()}
    return records


def _attempt(reader) -> dict:
    try:
        return reader()
    except Exception as error:
        return {"error": repr(error)}


def read_pickle(folder: Path) -> dict:
    """What the pickled aggregate predicts."""
    from golden.records import predictions

    return predictions(*pickle.loads((folder / PICKLE).read_bytes()))


def read_messages(entry: dict, folder: Path) -> dict:
    """How many messages there are, and those whose digest is another one."""
    others = [
        name
        for name, digest in entry["messages"].items()
        if _message(folder / name).digest != digest
    ]
    return {"n_messages": len(entry["messages"]), "other_digests": others}


def _message(path: Path):
    from skgems.messages import Message

    return Message.from_bytes(path.read_bytes())


def _has_files(entry: dict) -> bool:
    return any(name.startswith(("summary ", "front ")) for name in entry["messages"])


def fit_to_files(entry: dict, folder: Path, folder_here: Path) -> dict:
    """What the case's aggregator predicts, fitted here to files from there.

    It is that of this checkout, so that files are read even if pickles cannot be.
    """
    from golden.records import predictions

    from skgems.parties import Summary

    aggregate, X_test = pickle.loads((folder_here / PICKLE).read_bytes())
    names = entry["messages"]
    of_columns = [_message(folder / n) for n in names if n.startswith("front ")]
    if of_columns:
        aggregate.set_params(summaries=of_columns)
    else:
        summaries = {
            name.removeprefix("summary "): Summary(_message(folder / name))
            for name in names
            if name.startswith("summary ")
        }
        # Beside a region's file there may be nodes whose files were not kept.
        members = [summaries.get(m.name, m) for m in aggregate.estimators]
        aggregate.set_params(estimators=members)
    return predictions(aggregate.fit(), X_test)


def main(*words: str) -> None:
    reads = words[0] == "--read"
    checkout, path, *folders = map(Path, words[1:] if reads else words)
    load(checkout.resolve())
    records = read_all(*folders) if reads else run(*folders)
    path.write_text(json.dumps(records), encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
