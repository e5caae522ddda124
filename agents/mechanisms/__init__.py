# SPDX-License-Identifier: Apache-2.0
"""What a sponsor chooses by name. A file of a folder here is the choice of its name.

For example, `codec: sparse` in a spec is the file `agents/mechanisms/codec/sparse.py`. Functions
here take tensors and numbers and return tensors and numbers. They use no chain, no file and no
clock.
"""
