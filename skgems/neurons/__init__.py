# SPDX-License-Identifier: BSD-3-Clause
"""Good-enough spaces of hidden units, and merging the units of several nodes."""
