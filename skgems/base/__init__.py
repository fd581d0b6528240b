# SPDX-License-Identifier: BSD-3-Clause
"""scikit-learn's protocol for aggregators: members, clone, prediction, export."""
