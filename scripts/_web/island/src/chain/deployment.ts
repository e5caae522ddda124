// SPDX-License-Identifier: Apache-2.0
// Decides whether the addresses and ABIs that this server hands out may be used.
//
// The server can be anybody's. So the deployment file itself is fetched and hashed here, and only
// what is in these bytes is used: its hash must be the one that the page and the API name, and the
// one that this browser has seen before. Then the chain is asked: it must be the file's chain, and
// each address must have code.

import type { Abi } from "viem";
import { getAddress } from "viem/utils";
import { Refusal } from "../refusal";
import { ask, type Hex, type Provider } from "./provider";

export interface Contract {
  name: string;
  address: Hex;
  abi: Abi;
}

export interface Deployment {
  chainId: number;
  sha256: string;
  contracts: Map<string, Contract>;
}

/** The browser knows another file for this chain: only a person can say which one is right. */
export class OtherDeployment extends Refusal {
  constructor(
    readonly chainId: number,
    readonly known: string,
    readonly found: string,
  ) {
    super(
      `This server names other contracts for chain ${chainId} than this browser knows: the ` +
        `deployment file's hash is ${found}, and was ${known}.`,
      "Compare it with what the network's people publish before you go on.",
    );
  }
}

interface Named {
  chain_id: number;
  contracts: Record<string, { address: string; abi: Abi }>;
}

const remembered = (chainId: number): string => `menagerie:deployment:${chainId}`;

async function sha256(bytes: ArrayBuffer): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function fetched(path: string): Promise<Response> {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) {
    throw new Refusal(
      `The server answers ${path} with status ${answer.status}.`,
      "Try again later.",
    );
  }
  return answer;
}

/** Read a deployment file's content. Throws a Refusal where it is none. */
export function readDeployment(text: string, hash: string): Deployment {
  const found = JSON.parse(text) as Named;
  if (!Number.isSafeInteger(found.chain_id) || typeof found.contracts !== "object") {
    throw new Refusal("The server's deployment file is no deployment file.");
  }
  const contracts = Object.entries(found.contracts).map(([name, { address, abi }]) => {
    return [name, { name, address: getAddress(address), abi }] as const;
  });
  return { chainId: found.chain_id, sha256: hash, contracts: new Map(contracts) };
}

/**
 * Fetch the deployment file and compare its hash with all that is known of it.
 *
 * Throws OtherDeployment where this browser has used another file for the same chain, a Refusal
 * where the server contradicts itself.
 */
export async function loadDeployment(): Promise<Deployment> {
  const file = await (await fetched("/api/deployment/file")).arrayBuffer();
  const said = (await (await fetched("/api/deployment")).json()) as Named & { sha256: string };
  const hash = await sha256(file);
  const page = document.documentElement.dataset;
  if (hash !== said.sha256 || hash !== page.deployment) {
    throw new Refusal(
      `This server lies about its contracts: its deployment file's hash is ${hash}, but it names ` +
        `${said.sha256} and the page ${page.deployment}.`,
      "Sign nothing here. Use another server, or your own: `ape run web`.",
    );
  }
  const deployment = readDeployment(new TextDecoder().decode(file), hash);
  for (const [name, { address, abi }] of Object.entries(said.contracts)) {
    const own = deployment.contracts.get(name);
    const same = own && getAddress(address) === own.address;
    if (!same || JSON.stringify(abi) !== JSON.stringify(own.abi)) {
      throw new Refusal(
        `This server lies about the contract ${name}: it is not what the deployment file says.`,
        "Sign nothing here. Use another server, or your own: `ape run web`.",
      );
    }
  }
  if (String(said.chain_id) !== String(deployment.chainId)) {
    throw new Refusal(
      `This server lies about its chain: it names ${said.chain_id}, its deployment file ` +
        `${deployment.chainId}.`,
      "Sign nothing here. Use another server, or your own: `ape run web`.",
    );
  }
  const known = localStorage.getItem(remembered(deployment.chainId));
  if (known !== null && known !== hash) {
    throw new OtherDeployment(deployment.chainId, known, hash);
  }
  return deployment;
}

/** Have this browser hold a deployment for the right one of its chain from now on. */
export function remember(chainId: number, hash: string): void {
  localStorage.setItem(remembered(chainId), hash);
}

/** Whether this browser has used a deployment before. */
export function isKnown(deployment: Deployment): boolean {
  return localStorage.getItem(remembered(deployment.chainId)) === deployment.sha256;
}

/** Throw a Refusal where an address of the deployment has no code on the provider's chain. */
export async function checkCode(deployment: Deployment, provider: Provider): Promise<void> {
  const empty = await Promise.all(
    [...deployment.contracts.values()].map(async ({ name, address }) => {
      const code = await ask<Hex>(provider, "eth_getCode", address, "latest");
      return code === "0x" ? [`${name} (${address})`] : [];
    }),
  );
  const [first] = empty.flat();
  if (first !== undefined) {
    throw new Refusal(
      `There is no contract ${first} on the chain that your wallet shows.`,
      "The server or the wallet's RPC node is wrong about this network: sign nothing here.",
    );
  }
}
