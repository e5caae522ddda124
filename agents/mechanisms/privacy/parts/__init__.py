# SPDX-License-Identifier: Apache-2.0
"""The rule: what privacy mechanisms are built of. No part imports the face of its folder."""
