# SPDX-License-Identifier: Apache-2.0
"""A live network for tests in a browser: a chain with its people, a funded job, and its page.

Everything is real but the work: what trainers reveal are digests of nothing, so a round takes a
second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils import keccak
from playwright.sync_api import Browser, BrowserContext, Page, expect

from agents.storage.embedded import EmbeddedStore
from scripts._net.anvil import CHAIN_ID, Anvil, start_anvil
from scripts._net.deployment import ZOO, TaskTerms
from scripts._net.processes import Supervisor
from scripts._web.serve import html
from tests.stage.browser import PATIENCE_MS, visitor
from tests.stage.chain.people import TERMS, Node, People, found
from tests.stage.chain.tasks import FEE
from tests.stage.island import built_island
from tests.stage.wallet import Wallet
from tests.stage.web import Served, served

ROUNDS = 8


@dataclass
class Stage:
    """A network and its page. `people` drives the chain as everybody but the wallet's owner."""

    anvil: Anvil
    people: People
    page: Served
    store: EmbeddedStore
    deployment: Path
    rpc_url: str

    def wallet(self, *accounts: LocalAccount, name: str = "Fern", eip1559: bool = True) -> Wallet:
        """A wallet on this chain, with these accounts or a fresh one."""
        return Wallet({CHAIN_ID: self.rpc_url}, accounts, name=name, eip1559=eip1559)

    def person(self, zoo: int = 0) -> LocalAccount:
        """A fresh key with ether and ZOO that has allowed nobody anything."""
        account = Account.create()
        self.people.chain.transact(self.people.faucet, account.address, value=10**18)
        if zoo:
            self.people.give(account, zoo * ZOO)
        return account

    def balance(self, account: LocalAccount) -> int:
        """What a key has in ZOO, in units."""
        return int(self.people.chain.call(self.people.token, "balanceOf", account.address))

    def node(self, node_id: int) -> object:
        """A node as the registry has it."""
        return self.people.chain.call(self.people.registry, "node", node_id)

    def job(self, rounds: int = ROUNDS, funded: int = ROUNDS, **changes: int) -> int:
        """Create a job of a new sponsor; rounds are opened in it from now on. `changes`: of the
        usual terms."""
        terms = replace(TERMS, **changes)
        funds = terms.reward_per_round * funded
        sponsor = self.people.person(f"sponsor of {rounds}", funds)
        digests = [keccak(text=f"{part} of {rounds}") for part in ("spec", "model", "checkpoint")]
        encoded = (*digests, rounds, *terms.figures())
        self.people.job = self.people.create_job(sponsor, encoded, funds)
        self.people.round = 0
        return self.people.job

    def indexed(self) -> None:
        """Wait until the page has read the chain's newest block."""
        head = int(str(self.anvil.rpc("eth_blockNumber")), 16)
        end = time.monotonic() + PATIENCE_MS / 1_000
        while self.page.site.standing.block < head:
            assert time.monotonic() < end, "the index does not follow"
            time.sleep(0.01)

    def play(self, *nodes: Node) -> int:
        """Play a round in which these nodes work equally well; its number."""
        self.people.train(*nodes)
        self.people.finish(dict.fromkeys(nodes, 1))
        return self.people.round


@contextmanager
def stage(directory: Path, reached: Callable[[str], str] = lambda url: url) -> Iterator[Stage]:
    """Start a chain with everybody on it, and serve its page.

    `reached`: gives the address by which the page and the wallets reach the chain.
    """
    built_island()
    store = EmbeddedStore(directory / "store")
    with Supervisor(directory / "logs") as supervisor:
        anvil = start_anvil(supervisor, directory)
        deployment = directory / "deployment.json"
        terms = TaskTerms(max_fee=FEE, fee_per_s=ZOO // 1_000)
        people = found(anvil.url, ("ann", "bob"), deployment, tasks=terms)
        rpc_url, database = reached(anvil.url), f"sqlite:///{directory / 'index.db'}"
        with served(rpc_url, deployment, database, store=store, pages=html()) as page:
            yield Stage(anvil, people, page, store, deployment, rpc_url)


class Visit:
    """One reader's browser: a context of its own with the wallets that are installed in it."""

    def __init__(self, browser: Browser, url: str, *wallets: Wallet) -> None:
        self.context: BrowserContext = visitor(browser, url)
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._heard)
        for wallet in wallets:
            wallet.install(self.page)

    def _heard(self, message: object) -> None:
        text = str(getattr(message, "text", ""))
        if "Content Security Policy" in text or "Content-Security-Policy" in text:
            self.errors.append(text)

    def close(self) -> None:
        """End the visit. Raises AssertionError where the page's script has failed."""
        self.context.close()
        assert not self.errors, self.errors

    def connect(self, wallet: Wallet, path: str = "/operator") -> None:
        """Open a page and connect the wallet."""
        self.page.goto(path)
        self.page.get_by_role("button", name="Connect wallet").click()
        choice = self.page.locator("dialog.wallets").get_by_role("button", name=wallet.name)
        shown = self.page.locator(".wallet-name")
        expect(shown.or_(choice)).to_be_visible()
        if choice.is_visible():
            choice.click()
        expect(shown).to_contain_text(wallet.name)
        expect(self.page.locator("#wallet[data-deployment]")).to_be_attached()

    def submit(self, action: str, **fields: str) -> None:
        """Fill a form and send it; its plan or refusal is shown behind it."""
        form = self.page.locator(f'form[data-action="{action}"]').first
        form.wait_for(state="attached")  # the index may yet have to read of what the form is about
        for details in self.page.locator(f'details:has(form[data-action="{action}"])').all():
            if details.get_attribute("open") is None:
                details.locator("summary").first.click()
        for name, value in fields.items():
            form.locator(f'[name="{name}"]').fill(value)
        form.locator("button[type=submit]").click()

    def sign(self) -> None:
        """Press the plan's button, which has the wallet sign."""
        self.page.locator(".action-plan button.primary").click()

    def carry_out(self, action: str, **fields: str) -> str:
        """Fill a form, look at its plan, sign it to the end; what the page says came of it."""
        self.submit(action, **fields)
        expect(self.page.locator(".action-plan")).to_be_visible()
        expect(self.page.locator(".action-plan .hint").first).not_to_be_empty()
        self.sign()
        return self.result()

    def result(self) -> str:
        """What the page says came of the plan."""
        shown = self.page.locator(".action-result")
        expect(shown).to_be_visible()
        return shown.inner_text()

    def refusal(self) -> str:
        """What the page says it can't do."""
        shown = self.page.locator(".action-place .error:not([hidden])").first
        expect(shown).to_be_visible()
        return shown.inner_text()

    def step(self, key: str, state: str) -> str:
        """Wait until a step of the plan is in a state; its words."""
        line = self.page.locator(f'.action-step[data-step="{key}"]')
        expect(line).to_have_attribute("data-state", state)
        return line.inner_text()
