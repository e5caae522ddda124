# SPDX-License-Identifier: Apache-2.0
"""The rule: what scoring rules are built of. No part imports the face of its folder."""
