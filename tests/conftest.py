# SPDX-License-Identifier: Apache-2.0
"""Random examples may take as long as they need: a busy machine makes no test fail.

Hypothesis' own limit is 200 ms of wall time for an example.
"""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
