"""One call that makes several models of the nodes, and takes the best."""

from ._combine import combine
