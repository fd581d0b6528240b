# SPDX-License-Identifier: BSD-3-Clause
"""What public rows do to a finished model, and calibration."""
