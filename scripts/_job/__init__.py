# SPDX-License-Identifier: Apache-2.0
"""What `ape run job` is made of."""
