# SPDX-License-Identifier: BSD-3-Clause
"""Combine fitted classifiers of several parties into one, without their rows."""

from __future__ import annotations

from .logistic import GEMSLogisticAggregator

__all__ = ["GEMSLogisticAggregator"]

__version__ = "0.1.0"
