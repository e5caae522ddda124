# SPDX-License-Identifier: Apache-2.0
"""HTTP sessions of one address: one a thread, each with the environment read once.

requests looks for a proxy, certificates and a password in the environment and in a file for every
request. That is a sixth of a core's time that a request to a node on the same machine takes.
"""

from __future__ import annotations

import threading
from typing import Any

import requests
from requests.utils import get_netrc_auth


class Sessions(threading.local):
    """What web3 takes for a session: each thread has one of its own, with its own connections.

    What the environment says of proxies, certificates and passwords holds from a thread's first
    request on.
    """

    def __init__(self, url: str) -> None:
        """Called in each thread that uses the object, with the same address."""
        session = requests.Session()
        found = session.merge_environment_settings(url, {}, None, None, None)
        session.proxies, session.verify = dict(found["proxies"]), found["verify"]
        session.auth = get_netrc_auth(url)
        session.trust_env = False
        self._url, self._session = url, session

    def __reduce__(self) -> tuple[type[Sessions], tuple[str]]:
        """Another process that is given the object makes sessions of its own."""
        return Sessions, (self._url,)

    def post(self, url: str, **options: Any) -> requests.Response:
        """Send a POST request. Raises requests.RequestException."""
        return self._session.post(url, **options)
