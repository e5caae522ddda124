# SPDX-License-Identifier: Apache-2.0
"""What `ape run task` is made of."""
