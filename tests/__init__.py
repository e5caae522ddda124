# SPDX-License-Identifier: Apache-2.0
"""The tests. A package of its own: an installed library also brings a folder named `tests`."""
