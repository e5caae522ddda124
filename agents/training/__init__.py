# SPDX-License-Identifier: Apache-2.0
"""Job spec, models, data, local steps and exact replay; importing the package imports no torch."""
