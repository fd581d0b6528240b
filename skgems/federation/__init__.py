# SPDX-License-Identifier: BSD-3-Clause
"""Who takes part: nodes, their rows, classes and weights."""
