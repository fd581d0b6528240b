# SPDX-License-Identifier: BSD-3-Clause
"""What rows say in sums, made in blocks within ``working_memory``."""
