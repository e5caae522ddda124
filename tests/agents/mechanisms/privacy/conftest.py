# SPDX-License-Identifier: Apache-2.0
"""One thread: the tests of a machine run side by side."""

import torch

torch.set_num_threads(1)
