# SPDX-License-Identifier: Apache-2.0
"""Figures that sentences about several combinations have."""

NODES = 16  # a network this large is assumed where a figure depends on it

RIDERS_EARN = (
    "up to 1.26 of an honest node's pay (1.4 by score shares), and up to 5.4 of it under noise "
    "like DP's"
)
