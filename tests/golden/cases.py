# SPDX-License-Identifier: BSD-3-Clause
"""All golden cases: for each kind of aggregator what fits it, by name."""

from __future__ import annotations

from golden import (
    cases_averaging,
    cases_datasets,
    cases_distillation,
    cases_ensemble,
    cases_logistic,
    cases_mlp,
    cases_pfnm,
)

AGGREGATORS = {
    "logistic": cases_logistic.CASES,
    "mlp": cases_mlp.CASES,
    "pfnm": cases_pfnm.CASES,
    "averaging": cases_averaging.CASES,
    "ensemble": cases_ensemble.CASES,
    "distillation": cases_distillation.CASES,
    "datasets": cases_datasets.CASES,
}
