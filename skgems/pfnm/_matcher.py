"""How the networks of one step are matched: the settings of each hidden layer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..gems import NetworksMethod
from ..networks import Network, one_per_layer
from ._network import NetworkMatch, match_again, match_networks, merged_layers
from ._parameters import Matching
from ._stream import ClassShares, Stream, aligned_networks


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Networks as they are matched in one step, and settings for each hidden layer."""

    networks: list[Network]
    shares: ClassShares
    sigma: list
    sigma0: list
    gamma0: list
    max_units: list


@dataclass(frozen=True, kw_only=True, eq=False)
class Matcher(NetworksMethod):
    """How a PFNMAggregator matches networks, by its parameters."""

    sigma: ArrayLike  # "auto", a number, or one of these for each hidden layer
    sigma0: ArrayLike
    gamma0: ArrayLike
    max_units: ArrayLike | None  # where there are several, each may be None
    matching: Matching

    def batch(
        self,
        networks: Sequence[Network],
        classes: np.ndarray,
        *,
        counts: np.ndarray | None,  # rows, (n_nodes, n_classes)
        stream: Stream,
        start: NetworkMatch | None = None,
    ) -> Batch:
        """Return networks ready to be matched.

        ``start`` is the match whose last layer all were trained from, or None.
        """
        depth = len(stream.popularity)
        aligned = aligned_networks(
            networks,
            classes,
            depth=depth,
            start=None if start is None else merged_layers(start).last,
            # One network alone is to come back as it is.
            center=self.matching.model == "weighted"
            and (len(networks) > 1 or stream.match is not None),
            dtype=self.matching.dtype,
        )
        batch = Batch(
            networks=aligned,
            shares=ClassShares.from_counts(
                counts,
                seen=np.stack([network.seen for network in aligned]),
                earlier_rows=stream.class_rows,
            ),
            sigma=one_per_layer("sigma", self.sigma, depth, "auto"),
            sigma0=one_per_layer("sigma0", self.sigma0, depth, "auto"),
            gamma0=one_per_layer("gamma0", self.gamma0, depth, "auto"),
            max_units=one_per_layer("max_units", self.max_units, depth, None),
        )
        _check_widths(batch)
        return batch

    def match(
        self,
        batch: Batch,
        *,
        stream: Stream,
        names: Sequence[str],
        rng: np.random.RandomState,
    ) -> NetworkMatch:
        """Return the match of a step, with all steps before it as its prior.

        ``names`` are those of the nodes; of a first step, which has no prior, none.
        """
        uses_by_node = [stream.uses_by(name) for name in names]
        return match_networks(
            batch.networks,
            batch.shares.of_nodes,
            sigma=batch.sigma,
            sigma0=batch.sigma0,
            gamma0=batch.gamma0,
            max_units=batch.max_units,
            layer_order=self.matching.layer_order,
            previous=stream.match,
            previous_share=batch.shares.of_earlier,
            counts=[np.stack(uses) for uses in zip(*uses_by_node, strict=True)],
            n_steps=stream.n_steps,
            max_iter=self.matching.max_iter,
            tol=self.matching.tol,
            new_atom_cost=self.matching.new_atom_cost,
            model=self.matching.model,
            random_state=rng,
        )

    def match_trained(
        self, batch: Batch, *, start: NetworkMatch, rng: np.random.RandomState
    ) -> NetworkMatch:
        """Return the match of networks that were trained from an earlier match.

        Its sigma and sigma0 stay.
        """
        return match_again(
            batch.networks,
            batch.shares.of_nodes,
            merged=start,
            gamma0=batch.gamma0,
            max_units=batch.max_units,
            layer_order=self.matching.layer_order,
            max_iter=self.matching.max_iter,
            tol=self.matching.tol,
            new_atom_cost=self.matching.new_atom_cost,
            model=self.matching.model,
            random_state=rng,
        )


def _check_widths(batch: Batch) -> None:
    """Raise ValueError where a node has more units in a layer than may be merged."""
    for layer, max_units in enumerate(batch.max_units):
        widest = max(network.widths[layer] for network in batch.networks)
        if max_units is not None and max_units < widest:
            raise ValueError(
                f"max_units is {max_units}, but a node has {widest} units in hidden "
                f"layer {layer}; units of one node are never merged with each other. "
                f"Set max_units to at least {widest}."
            )
