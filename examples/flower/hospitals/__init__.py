# SPDX-License-Identifier: BSD-3-Clause
"""An app of Flower: hospitals that each have a classifier, and keep their rows."""
