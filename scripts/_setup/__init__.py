# SPDX-License-Identifier: Apache-2.0
"""What `scripts/setup.sh` runs before any package is installed: the standard library only."""
