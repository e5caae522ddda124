# SPDX-License-Identifier: Apache-2.0
"""What the inner optimizers are built of: tensors in, tensors out."""
