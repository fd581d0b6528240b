# SPDX-License-Identifier: BSD-3-Clause
"""All golden cases: for each kind of aggregator what fits it, by name."""

from __future__ import annotations

from golden import (
    cases_averaging,
    cases_channels,
    cases_combine,
    cases_command_line,
    cases_datasets,
    cases_distillation,
    cases_ensemble,
    cases_fronts,
    cases_logistic,
    cases_mlp,
    cases_pfnm,
    cases_pooled,
    cases_stacks,
)

AGGREGATORS = {
    "logistic": cases_logistic.CASES,
    "mlp": cases_mlp.CASES,
    "pfnm": cases_pfnm.CASES,
    "averaging": cases_averaging.CASES,
    "ensemble": cases_ensemble.CASES,
    "distillation": cases_distillation.CASES,
    "datasets": cases_datasets.CASES,
    "pooled": cases_pooled.CASES,
    "fronts": cases_fronts.CASES,
    "stacks": cases_stacks.CASES,
    "combine": cases_combine.CASES,
    "channels": cases_channels.CASES,
    "command line": cases_command_line.CASES,
}
