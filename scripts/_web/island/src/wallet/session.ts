// SPDX-License-Identifier: Apache-2.0
// The connected wallet: its accounts, its chain, and whether the deployment may be trusted there.
//
// Only the wallet's own events and answers change this state; nothing of it is sent to the server.

import {
  checkCode,
  type Deployment,
  loadDeployment,
  remember,
} from "../chain/deployment";
import { ask, type Hex, isRpcError } from "../chain/provider";
import { Reader } from "../chain/reader";
import { getAddress } from "viem/utils";
import { Refusal } from "../refusal";
import type { Wallet } from "./discovery";

const CHOSEN = "menagerie:wallet";
const UNKNOWN_CHAIN = 4902;

/** The wallet shows another chain than the deployment's. */
export class WrongChain extends Refusal {
  constructor(
    readonly shown: number,
    readonly wanted: number,
  ) {
    super(
      `Your wallet shows chain ${shown}, but this network is on chain ${wanted}.`,
      "Switch the wallet to it.",
    );
  }
}

/** The accounts that a wallet shows, checksummed. */
async function seen(wallet: Wallet, method: string): Promise<Hex[]> {
  return (await ask<Hex[]>(wallet.provider, method)).map((each) => getAddress(each));
}

export class Session {
  accounts: Hex[] = [];
  chainId = 0;
  private checked: Deployment | null = null;
  private readonly listeners = new Set<() => void>();

  private constructor(readonly wallet: Wallet) {
    const { provider } = wallet;
    provider.on?.("accountsChanged", (accounts: Hex[]) => {
      this.accounts = accounts.map((each) => getAddress(each));
      this.changed();
    });
    provider.on?.("chainChanged", (chain: Hex) => {
      this.chainId = Number(chain);
      this.checked = null;
      this.changed();
    });
  }

  /** Connect a wallet: it asks its user which accounts the page may see. */
  static async connect(wallet: Wallet): Promise<Session> {
    const session = new Session(wallet);
    session.accounts = await seen(wallet, "eth_requestAccounts");
    session.chainId = Number(await ask<Hex>(wallet.provider, "eth_chainId"));
    if (session.accounts.length) localStorage.setItem(CHOSEN, wallet.rdns);
    return session;
  }

  /** Connect again without a question, where the reader has connected this wallet before. */
  static async again(wallet: Wallet): Promise<Session | null> {
    if (localStorage.getItem(CHOSEN) !== wallet.rdns) return null;
    const session = new Session(wallet);
    session.accounts = await seen(wallet, "eth_accounts");
    session.chainId = Number(await ask<Hex>(wallet.provider, "eth_chainId"));
    return session;
  }

  /** Forget the choice of a wallet. */
  static forget(): void {
    localStorage.removeItem(CHOSEN);
  }

  /** The account that signs. Undefined while the wallet is locked. */
  get account(): Hex | undefined {
    return this.accounts[0];
  }

  onChange(listener: () => void): void {
    this.listeners.add(listener);
  }

  private changed(): void {
    for (const listener of this.listeners) listener();
  }

  /** Ask a locked wallet for its accounts again. Throws a Refusal where it stays locked. */
  async unlocked(): Promise<Hex> {
    if (!this.account) {
      try {
        this.accounts = await seen(this.wallet, "eth_requestAccounts");
      } catch (error) {
        if (!isRpcError(error)) throw error;
      }
      this.changed();
    }
    if (!this.account) {
      throw new Refusal("Your wallet is locked.", "Unlock it, then continue here.");
    }
    return this.account;
  }

  /**
   * Check the deployment and return its reader through the wallet.
   *
   * Throws WrongChain, OtherDeployment, or a Refusal that says which check failed.
   */
  async reader(): Promise<Reader> {
    const { provider } = this.wallet;
    this.chainId = Number(await ask<Hex>(provider, "eth_chainId"));
    const deployment = this.checked ?? (await loadDeployment());
    if (deployment.chainId !== this.chainId) {
      throw new WrongChain(this.chainId, deployment.chainId);
    }
    if (!this.checked) {
      await checkCode(deployment, provider);
      remember(deployment.chainId, deployment.sha256);
      this.checked = deployment;
    }
    return new Reader(deployment, provider);
  }

  /** Have the wallet show a chain; it is added first where the wallet does not know it. */
  async switchTo(chainId: number): Promise<void> {
    const { provider } = this.wallet;
    const id = `0x${chainId.toString(16)}`;
    try {
      await ask(provider, "wallet_switchEthereumChain", { chainId: id });
    } catch (error) {
      if (!isRpcError(error) || error.code !== UNKNOWN_CHAIN) throw error;
      const rpc = document.documentElement.dataset.rpc;
      if (!rpc) {
        throw new Refusal(
          `Your wallet does not know chain ${chainId}.`,
          "Add it in the wallet's settings with the RPC address of a node that you trust.",
        );
      }
      await ask(provider, "wallet_addEthereumChain", {
        chainId: id,
        chainName: `Menagerie, chain ${chainId}`,
        rpcUrls: [rpc],
        nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
      });
      await ask(provider, "wallet_switchEthereumChain", { chainId: id });
    }
    this.chainId = Number(await ask<Hex>(provider, "eth_chainId"));
    this.changed();
  }
}
