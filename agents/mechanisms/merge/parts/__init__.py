# SPDX-License-Identifier: Apache-2.0
"""The rule: what merge rules are built of. No part imports the face of its folder."""
