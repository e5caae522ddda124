# SPDX-License-Identifier: Apache-2.0
"""What a reader is told when there is no answer: a sentence, as JSON or as a page.

Rule: under `/api` and for programs it is JSON with `detail`, for a browser's page it is a page.
What nobody foresaw is 500 with a sentence that says nothing of the machine; the log has the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from agents.runtime.errors import AgentError
from agents.storage.errors import StoreError
from scripts._web.index.reading import BadCursor, NotFound, NotReady

Problem = Callable[[Request, int, str], Response]


def answer_problems(app: FastAPI, page: Problem | None) -> None:
    """Answer every error of the application. `page`: makes it a page for browsers."""

    def answer(request: Request, status: int, sentence: str) -> Response:
        wants_page = "text/html" in request.headers.get("accept", "")
        if page is not None and wants_page and not request.url.path.startswith("/api"):
            response = page(request, status, sentence)
        else:
            response = JSONResponse({"detail": sentence}, status)
        if status in (429, 503):
            response.headers["retry-after"] = "2"
        response.headers["cache-control"] = "no-store"
        return response

    def known(status: int) -> Callable[[Request, Exception], Response]:
        return lambda request, error: answer(request, status, str(error))

    def of_the_store(request: Request, error: Exception) -> Response:
        store = request.app.state.site.store
        said = str(error) if store is None else str(error).replace(store.location, "the store")
        return answer(request, 503, said)  # where it is on this machine is nobody's business

    def of_the_database(request: Request, error: Exception) -> Response:
        return answer(request, 503, "The index's database does not answer; try again in a moment.")

    def unforeseen(request: Request, error: Exception) -> Response:
        return answer(request, 500, "This page has a fault here. Its server's log says more.")

    def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        words = error.detail
        if words == HTTPStatus(error.status_code).phrase:
            words = _WORDS.get(error.status_code, words)
        response = answer(request, error.status_code, words)
        response.headers.update(error.headers or {})
        return response

    def malformed(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        wrong = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        return answer(request, 422, "; ".join(wrong)[:1_000])

    app.add_exception_handler(NotFound, known(404))
    app.add_exception_handler(BadCursor, known(422))
    app.add_exception_handler(NotReady, known(503))
    app.add_exception_handler(AgentError, known(503))
    app.add_exception_handler(StoreError, of_the_store)
    app.add_exception_handler(SQLAlchemyError, of_the_database)
    app.add_exception_handler(Exception, unforeseen)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, malformed)


_WORDS = {
    404: "There is no such page.",
    405: "This address can't be asked in that way.",
}
