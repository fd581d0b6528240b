# SPDX-License-Identifier: BSD-3-Clause
"""Run the functions of OT-fusion in its folder, for `_programs.py`.

Its main program trains or loads two networks of MNIST and merges them. Here its
functions are given networks and rows of a file, and the flags of its command line. It
is run with that folder as the working directory.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from time import process_time
from types import ModuleType

import numpy as np
import torch
from torch import nn


class Network(nn.Module):
    """One hidden layer without biases, whose layers are named as its networks are."""

    def __init__(self, W: np.ndarray, V: np.ndarray):
        super().__init__()
        self.fc1 = nn.Linear(W.shape[1], W.shape[0], bias=False)
        self.fc2 = nn.Linear(V.shape[1], V.shape[0], bias=False)
        with torch.no_grad():
            self.fc1.weight.copy_(torch.as_tensor(W))
            self.fc2.weight.copy_(torch.as_tensor(V))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.fc2(torch.relu(self.fc1(rows)))


def import_otfusion() -> tuple[ModuleType, ModuleType, ModuleType]:
    """Its modules of command line, of activations and of merging."""
    sys.path.insert(0, ".")
    try:
        import torchvision  # noqa: F401
    except Exception:
        # It is imported for data sets, which are not read here. One that does not fit
        # torch raises an error that is no ImportError.
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        sys.modules["torchvision"] = ModuleType("torchvision")
    import compute_activations
    import parameters
    import wasserstein_ensemble

    return parameters, compute_activations, wasserstein_ensemble


def aligned(
    network: Network, reference: Network, X: np.ndarray, flags: str
) -> list[np.ndarray]:
    """The layers of a network, moved onto the units of another."""
    parameters, compute_activations, wasserstein_ensemble = import_otfusion()
    # A step of 0 towards the other leaves the aligned network as it is.
    options = parameters.get_parser().parse_args([*flags.split(), "--ensemble-step=0"])
    pair = [network, reference]
    if options.geom_ensemble_type == "acts":
        # Rows one by one, as its own loader has them; it does not use the labels.
        loader = [(row[None], torch.tensor([0])) for row in torch.as_tensor(X)]
        activations = compute_activations.compute_activations_across_models_v1(
            options,
            pair,
            loader,
            options.act_num_samples,
            mode=options.activation_mode,
        )
        layers = wasserstein_ensemble.get_acts_wassersteinized_layers_modularized(
            options, pair, activations
        )
    else:
        layers = wasserstein_ensemble.get_wassersteinized_layers_modularized(
            options, pair
        )
    return [layer.detach().numpy() for layer in layers]


def main() -> None:
    """Merge the networks of one file into one in another."""
    command = json.loads(sys.argv[1])
    with np.load(command["source"]) as arrays:
        networks = [
            Network(arrays[f"W{k}"], arrays[f"V{k}"])
            for k in range(command["n_networks"])
        ]
        X = arrays["X"]
    reference = networks.pop(command["reference"])
    import_otfusion()
    start = process_time()
    # It prints every matrix.
    with contextlib.redirect_stdout(io.StringIO()):
        layers = [[layer.detach().numpy() for layer in reference.parameters()]]
        for network in networks:
            layers.append(aligned(network, reference, X, command["flags"]))
    W, V = (np.mean(of_networks, axis=0) for of_networks in zip(*layers, strict=True))
    seconds = process_time() - start
    np.savez(command["target"], W=W, V=V, seconds=seconds)


if __name__ == "__main__":
    main()
