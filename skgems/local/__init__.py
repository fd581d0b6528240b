# SPDX-License-Identifier: BSD-3-Clause
"""All that a node does with its own classifier and its own rows."""
