# SPDX-License-Identifier: Apache-2.0
"""What the fork server imports before it forks agents; nothing else imports this file.

What is loaded is frozen: a collection in a fork would copy the memory that all share.
"""

from __future__ import annotations

import gc
import importlib

from agents.runtime.roles import PACKAGE, ROLES
from scripts._net.preloaded import end_with_parent

end_with_parent()
for role in ROLES:
    importlib.import_module(f"{PACKAGE}.{role}")
gc.freeze()
