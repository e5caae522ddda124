# SPDX-License-Identifier: Apache-2.0
"""HTTP sessions of one address: one a thread, each with the environment read once.

requests looks for a proxy, certificates and a password in the environment and in a file for every
request. That is a sixth of a core's time that a request to a node on the same machine takes. It
also puts each request together anew from its address, headers and password: another sixth.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
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
        self._parts: dict[object, requests.PreparedRequest] = {}

    def __reduce__(self) -> tuple[type[Sessions], tuple[str]]:
        """Another process that is given the object makes sessions of its own."""
        return Sessions, (self._url,)

    def post(self, url: str, data: Any = None, **options: Any) -> requests.Response:
        """Send a POST request. Raises requests.RequestException."""
        session, headers = self._session, options.get("headers")
        # A node's cookies belong into the next request, so that is put together by requests.
        if not isinstance(data, bytes) or not data or not headers or session.cookies:
            return session.post(url, data=data, **options)
        request = self._put_together(url, options.pop("headers")).copy()
        request.body = data
        request.headers["Content-Length"] = str(len(data))
        return session.send(request, proxies=dict(session.proxies), **options)

    def _put_together(self, url: str, headers: Mapping[str, str]) -> requests.PreparedRequest:
        """The request without its body."""
        key = url, tuple(headers.items())
        if key not in self._parts:
            whole = requests.Request("POST", url, headers=headers)
            self._parts[key] = self._session.prepare_request(whole)
        return self._parts[key]
