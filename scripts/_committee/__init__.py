# SPDX-License-Identifier: Apache-2.0
"""The parts of `ape run committee`."""
