"""What nodes and server agree on where parameters are averaged."""

from dataclasses import dataclass

from ..messages import Terms


@dataclass(frozen=True, kw_only=True)
class AveragingTerms(Terms, method="ModelAveragingAggregator"):
    """Nodes send their parameters first, and trained ones in each round."""

    n_rounds: int = 0

    def most_requests(self, n_hidden_layers: int) -> dict[str, int]:
        return {"train": self.n_rounds}
