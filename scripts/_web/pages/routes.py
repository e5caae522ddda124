# SPDX-License-Identifier: Apache-2.0
"""The pages: each route reads one block of the index and renders one template.

Rule: a page depends on its address and on the block alone, so the cache around it may keep it. What
the chain must be asked for, because no event says it, is asked here, and a chain that does not
answer leaves a sentence in that place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment
from markupsafe import Markup

from agents.audit.explain import Explanation, Step, Term
from agents.protocol import numbers
from agents.runtime.errors import AgentError
from agents.storage.cid import cid_from_digest
from scripts._report.page.markup import count, text
from scripts._web.api.app import Pages
from scripts._web.api.deps import MOST_ID, JobId, Look, NodeId, RoundId, TheSite
from scripts._web.api.explaining import Explaining
from scripts._web.api.finished import checkpoint_of, finished_rounds, losses
from scripts._web.api.site import Site
from scripts._web.index import queries
from scripts._web.index.models import At, JobSummary
from scripts._web.index.models import Clock as RoundClock
from scripts._web.index.reading import NotReady, Reading, reading
from scripts._web.pages import curves, tasks, words
from scripts._web.pages.accusations import told
from scripts._web.pages.committee import committee_page
from scripts._web.pages.draw.clock import Clock, clock
from scripts._web.pages.draw.money import money_of
from scripts._web.pages.draw.sankey import Flow, Stop, balanced
from scripts._web.pages.errors import Progress, heading
from scripts._web.pages.happenings import LOOKED_THROUGH, said
from scripts._web.pages.view import STATIC, environment

__all__ = ["PAGES", "STATIC", "problem", "router"]

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
_STATES = {"ready": "good", "paused": "plain", "exiting": "plain", "closed": "plain"}
_DEEDS = {"done": "good", "waiting": "soft", "missed": "wait", "silent": "bad", "invalid": "bad"}
_PAYMENTS = {
    "forfeited": "bad",
    "carried on": "soft",
    "carried forfeited": "soft",
    "unclaimed": "soft",
}


@dataclass(frozen=True)
class Chain:
    """What every page says of the chain and of this server."""

    chain_id: int
    deployment: str
    rpc: str | None
    block: int
    hash: str
    time: int
    health: str
    sentence: str
    island: bool


@cache
def _templates() -> Environment:
    made = environment()
    made.globals.update(
        clock_of=_clock_of,
        cid=cid_from_digest,
        formula=formula,
        place_of=lambda href: href[1:].replace("s/", " ").replace("/", ", "),
        value=value,
        phase_text=lambda name: words.phase_sentence(numbers.Phase[name.upper()]),
        state_tone=lambda state: _STATES.get(state, "bad"),
        pay_tone=lambda pay: _PAYMENTS.get(pay.kind, "good" if pay.credited else "wait"),
        deed_tone=lambda did: _DEEDS.get(did, "soft"),
    )
    made.filters["capitalize_first"] = lambda said: Markup(str(said).replace(">round", ">Round", 1))
    return made


def _chain(site: Site, at: At | None) -> Chain:
    standing = site.standing
    sentence, health = "", "live"
    if standing.rpc_down:
        health = "down"
        sentence = "The chain's node does not answer; what you see is what was read before"
    elif standing.problem:
        health, sentence = "down", standing.problem.rstrip(".")
    elif standing.behind > 2:
        health, sentence = "late", f"{count(standing.behind, 'block')} are yet to be read"
    return Chain(
        chain_id=site.deployment.chain_id,
        deployment=site.identity,
        rpc=site.rpc_url,
        block=at.block if at else 0,
        hash=at.hash if at else "",
        time=at.time if at else 0,
        health=health,
        sentence=sentence,
        island=(STATIC / "island" / "main.js").is_file(),
    )


def _render(request: Request, site: Site, at: At | None, template: str, **given: Any) -> str:
    found = _templates().get_template(template)
    return found.render(chain=_chain(site, at), here=request.url.path, **given)


def _page(request: Request, site: Site, at: At, template: str, **given: Any) -> HTMLResponse:
    return HTMLResponse(_render(request, site, at, template, **given))


def problem(request: Request, status: int, sentence: str) -> HTMLResponse:
    """Return an error as a page."""
    site: Site = request.app.state.site
    at, progress = None, None
    try:
        with reading(site.engine) as look:
            at = look.at
    except NotReady:
        standing, first = site.standing, site.deployment.block
        if standing.head > first:
            done = max(0, standing.block - first)
            progress = Progress(done, standing.head - first)
    html = _render(
        request,
        site,
        at,
        "error.html",
        status=status,
        heading=heading(status),
        sentence=sentence,
        progress=progress,
    )
    return HTMLResponse(html, status)


def _windows(terms: dict[str, Any]) -> list[int]:
    return [int(terms[f"{name}_s"]) for name in ("commit", "reveal", "aggregate", "challenge")]


def _clock_of(each: RoundClock, windows: list[int], now: int) -> Markup:
    phase = numbers.Phase[each.phase.upper()]
    return clock(Clock(windows, phase, each.deadline - now))


# -- runs --------------------------------------------------------------------------------------


@router.get("/")
def home(request: Request, site: TheSite, look: Look) -> HTMLResponse:
    """The network at a glance."""
    found = queries.home(look)
    files = site.artefacts.for_a_page()
    jobs = [
        job.model_copy(update={"loss": losses(finished_rounds(look, files, job.job_id))})
        for job in found.jobs
    ]
    jobs.sort(key=lambda job: (job.status != "active", -job.job_id))
    shown = _page(
        request,
        site,
        look.at,
        "home.html",
        home=found.model_copy(update={"jobs": jobs}),
        happened=said(queries.events(look, limit=LOOKED_THROUGH).items, 9),
        doing={j.job_id: _doing(look, j) for j in jobs if j.status == "active"},
        running=sum(job.status == "active" for job in jobs),
        windows={j.job_id: _windows(queries.job_row(look, j.job_id)["terms"]) for j in jobs},
    )
    return _kept_if(files.whole, shown)


def _doing(look: Reading, job: JobSummary) -> dict[int, str]:
    """What each trainer of a job's newest round has done in it."""
    if job.clock is None:
        return {}
    seats = queries.round_(look, job.job_id, job.clock.round_id).seats
    return {
        seat.node_id: "revealed"
        if seat.revealed_at
        else "committed"
        if seat.committed_at
        else "at work"
        for seat in seats
    }


@router.get("/jobs/{job_id}")
def job(request: Request, site: TheSite, look: Look, job_id: JobId) -> HTMLResponse:
    """A job."""
    page, files = queries.job(look, job_id), site.artefacts.for_a_page()
    rounds = finished_rounds(look, files, job_id)
    known = {point.round_id: point for point in losses(rounds)}
    page = page.model_copy(
        update={
            "job": page.job.model_copy(update={"loss": list(known.values())}),
            "rounds": [r.model_copy(update={"loss": known.get(r.round_id)}) for r in page.rounds],
        }
    )
    shown = _page(
        request,
        site,
        look.at,
        "job.html",
        page=page,
        windows=_windows(queries.job_row(look, job_id)["terms"]),
        curves=curves.of_job(job_id, rounds),
        checkpoint=checkpoint_of(page.terms, rounds, files),
        spec=files.spec(page.terms.spec),
    )
    return _kept_if(files.whole, shown)


# -- rounds and payments -----------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A flow of money by the names of its ends."""

    source: str
    target: str
    amount: int


@dataclass(frozen=True)
class Money:
    """A round's money. `problem`: why there is none to show."""

    stops: list[Stop]
    flows: list[Flow]
    rows: list[Row]
    unit_gap: int = 0
    problem: str = ""


def _money(site: Site, look: Reading, job_id: int, round_id: int) -> Money:
    reward = int(queries.job_row(look, job_id)["terms"]["reward_per_round"])
    try:
        with Explaining(site, look, job_id) as explainer:
            found = explainer.round(round_id)
        if found.status not in ("finalized", "void"):
            return Money([], [], [])
        stops, flows = money_of(
            found,
            reward,
            lambda node: f"node {node}",
            lambda node: f"/jobs/{job_id}/rounds/{round_id}/nodes/{node}",
        )
        through = balanced(stops, flows)
    except (AgentError, ValueError) as error:
        why_not = f"The round's money cannot be explained right now: {error}"
        return Money([], [], [], problem=why_not)
    names = {stop.key: stop.name for stop in stops}
    rows = [Row(names[flow.source], names[flow.target], flow.amount) for flow in flows]
    gap = found.pool - through.get("pool", 0)
    return Money(stops, flows, rows, gap)


@router.get("/jobs/{job_id}/rounds/{round_id}")
def round_(
    request: Request, site: TheSite, look: Look, job_id: JobId, round_id: RoundId
) -> HTMLResponse:
    """A round."""
    page, files = queries.round_(look, job_id, round_id), site.artefacts.for_a_page()
    finished = finished_rounds(look, files, job_id)
    loss = {point.round_id: point for point in losses(finished)}.get(round_id)
    summary = page.summary.model_copy(update={"loss": loss})
    reports = told(page.reports, files.reason, look.at.time)
    row = queries.job_row(look, job_id)
    money = _money(site, look, job_id, round_id)
    shown = _page(
        request,
        site,
        look.at,
        "round.html",
        page=page.model_copy(update={"summary": summary}),
        windows=_windows(row["terms"]),
        last_round=row["rounds_opened"],
        money=money,
        reports=reports,
        accused={each.node_id for each in reports},
    )
    return _kept_if(files.whole and not money.problem, shown)


@router.get("/jobs/{job_id}/rounds/{round_id}/nodes/{node_id}")
def why(
    request: Request, site: TheSite, look: Look, job_id: JobId, round_id: RoundId, node_id: NodeId
) -> HTMLResponse:
    """Why a node was paid what it was paid."""
    queries.round_(look, job_id, round_id)
    queries.node(look, node_id)
    try:
        with Explaining(site, look, job_id) as explainer:
            differences = [str(each) for each in explainer.round(round_id).differences]
            each: Explanation = explainer.node(round_id, node_id)
    except AgentError as error:
        why_not = (
            f"The chain cannot be asked right now, and an explanation is read from it: {error}"
        )
        return problem(request, 503, why_not)
    return _page(
        request,
        site,
        look.at,
        "why.html",
        job_id=job_id,
        each=each,
        due=sum(payment.due for payment in each.payments),
        differences=differences,
    )


def value(term: Term) -> Markup:
    """Return a number of a formula with what it counts."""
    if term.unit == "ZOO":
        return words.amount(term.value)
    shown = f"{term.value:,}{' of 10,000' if term.unit else ''}"
    return Markup(f"<span class='nowrap'>{text(shown)}</span>")


def formula(step: Step) -> Markup:
    """Return a formula with its numbers put in, each beside its name."""
    shown, marks = step.formula, {}
    for place, term in enumerate(sorted(step.terms, key=lambda term: -len(term.name))):
        mark = chr(0xE000 + place)  # of the private use: no name holds one
        shown = shown.replace(term.name, mark, 1)
        number = words.plain_zoo(term.value) if term.unit == "ZOO" else f"{term.value:,}"
        number += " of 10,000" if term.unit not in ("", "ZOO") else ""
        title = f" title='{term.value} wei'" if term.unit == "ZOO" else ""
        marks[mark] = f"{text(term.name)} <b{title}>{text(number)}</b>"
    return Markup("".join(marks.get(c) or text(c) for c in shown.replace(" x ", " × ")))


# -- nodes -------------------------------------------------------------------------------------


After = Annotated[int, Query(ge=0, le=MOST_ID)]


@router.get("/nodes")
def nodes(request: Request, site: TheSite, look: Look, after: After = 0) -> HTMLResponse:
    """All nodes."""
    return _page(request, site, look.at, "nodes.html", nodes=queries.nodes(look, after))


@router.get("/nodes/{node_id}")
def node(request: Request, site: TheSite, look: Look, node_id: NodeId) -> HTMLResponse:
    """A node."""
    page, files = queries.node(look, node_id), site.artefacts.for_a_page()
    shown = _page(
        request,
        site,
        look.at,
        "node.html",
        page=page,
        standing=_standing(page.node.state, page.node.locks),
        earnings=curves.earnings(node_id, page.payments),
        stakes=curves.stakes(page.stakes),
        reports=told(page.reports, files.reason, look.at.time),
    )
    return _kept_if(files.whole, shown)


def _standing(state: str, locks: int) -> str:
    accused = count(locks, "open accusation")
    return {
        "ready": "It may take part in every round that its roles allow.",
        "paused": "Its owner has paused it: it takes part in no new round.",
        "suspended": "No round draws it until its suspension is over.",
        "locked": f"{accused}: its stake and its pay wait for the end.",
        "exiting": "Its owner is leaving; the stake unbonds.",
        "closed": "Its owner has left with the stake.",
        "banned": "It was banned for good after its third strike.",
    }.get(state, "")


# -- tasks, committee, and what a wallet does --------------------------------------------------

Before = Annotated[int | None, Query(ge=1, le=MOST_ID)]


@router.get("/tasks")
def all_tasks(request: Request, site: TheSite, look: Look, before: Before = None) -> HTMLResponse:
    """The redundant tasks, newest first."""
    found = tasks.newest(site.asked, look, before)
    given: dict[str, Any] = {"tasks": found.items, "further": found.further}
    return _kept_if(found.whole, _page(request, site, look.at, "tasks.html", **given))


@router.get("/tasks/{task_id}")
def task(request: Request, site: TheSite, look: Look, task_id: JobId) -> HTMLResponse:
    """A redundant task."""
    found, whole = tasks.one(site.asked, look, task_id)
    return _kept_if(whole, _page(request, site, look.at, "task.html", task=found))


def _kept_if(whole: bool, page: HTMLResponse) -> HTMLResponse:
    """Keep a page that lacks nothing; what chain or store did not say may be said in a moment."""
    if not whole:
        page.headers["cache-control"] = "no-store"
    return page


@router.get("/committee")
def committee(request: Request, site: TheSite, look: Look) -> HTMLResponse:
    """The committee and its operations."""
    with site.asked() as network:
        found, operations = committee_page(network, look.at.time)
    given: dict[str, Any] = {"committee": found, "operations": operations}
    return _page(request, site, look.at, "committee.html", **given)


@router.get("/sponsor")
def sponsor(request: Request, site: TheSite, look: Look) -> HTMLResponse:
    """How to have a model trained."""
    return _page(request, site, look.at, "sponsor.html")


@router.get("/operator")
def operator(request: Request, site: TheSite, look: Look) -> HTMLResponse:
    """How to run a node and claim what it earned."""
    return _page(request, site, look.at, "operator.html")


@router.get("/about")
def about(request: Request, site: TheSite, look: Look) -> HTMLResponse:
    """What is verified by whom."""
    return _page(request, site, look.at, "about.html")


PAGES = Pages(router, STATIC, problem)
"""What the application is given to serve HTML too."""
