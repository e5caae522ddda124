// SPDX-License-Identifier: Apache-2.0
// Reads and rehearses calls of a deployment's contracts through a provider.

import { decodeFunctionResult, encodeFunctionData, parseEventLogs } from "viem";
import { Refusal } from "../refusal";
import type { Contract, Deployment } from "./deployment";
import { ask, type Block, type Hex, type Log, type Provider } from "./provider";
import { type Revert, revertOf } from "./reasons";

/** A transaction that has not been sent. */
export interface Call {
  contract: string;
  fn: string;
  args: readonly unknown[];
}

export interface Event {
  name: string;
  contract: string;
  args: Record<string, unknown>;
}

/** What sending a call would take. `fee` is what it costs by the newest block's prices, in wei. */
export interface Cost {
  gas: bigint;
  fee: bigint;
  most: bigint;
}

/** EIP-7825: no transaction may ask for more. */
const GAS_CAP = 16_777_216n;
/**
 * How much more gas a call may take than a node estimates. The estimate is of the block before, and
 * a person reads in between. Gas that is not used costs nothing.
 */
const ROOM = 3n;
const TIP = 1_500_000_000n;

const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);

export class Reader {
  constructor(
    readonly deployment: Deployment,
    readonly provider: Provider,
  ) {}

  /** The contract of a name. Throws a Refusal where the deployment has none. */
  contract(name: string): Contract {
    const found = this.deployment.contracts.get(name);
    if (!found) throw new Refusal(`This network has no contract ${name}.`);
    return found;
  }

  data({ contract, fn, args }: Call): Hex {
    return encodeFunctionData({ abi: this.contract(contract).abi, functionName: fn, args });
  }

  /** Call a view at the newest block. */
  async read<T>(contract: string, fn: string, ...args: unknown[]): Promise<T> {
    const { abi, address } = this.contract(contract);
    const data = this.data({ contract, fn, args });
    const answer = await ask<Hex>(this.provider, "eth_call", { to: address, data }, "latest");
    return decodeFunctionResult({ abi, functionName: fn, args, data: answer }) as T;
  }

  /**
   * Do what a transaction would do, without sending it. Returns what the contract refuses, or
   * undefined where it does not. Throws what else fails.
   */
  async rehearse(call: Call, from: Hex, block: Hex | "latest" = "latest"): Promise<Revert | undefined> {
    const { abi, address } = this.contract(call.contract);
    const wanted = { from, to: address, data: this.data(call) };
    try {
      await ask(this.provider, "eth_call", wanted, block);
      return undefined;
    } catch (error) {
      const revert = revertOf(error, abi);
      if (revert) return revert;
      throw error;
    }
  }

  /** What a call would cost. A chain without EIP-1559 has a gas price instead of a base fee. */
  async cost(call: Call, from: Hex): Promise<Cost> {
    const wanted = { from, to: this.contract(call.contract).address, data: this.data(call) };
    const needed = BigInt(await ask<Hex>(this.provider, "eth_estimateGas", wanted));
    const gas = least(needed * ROOM, GAS_CAP);
    const block = await this.block();
    if (block.baseFeePerGas === undefined) {
      const price = BigInt(await ask<Hex>(this.provider, "eth_gasPrice"));
      return { gas, fee: needed * price, most: gas * price };
    }
    const base = BigInt(block.baseFeePerGas);
    const tip = await ask<Hex>(this.provider, "eth_maxPriorityFeePerGas").then(BigInt, () => TIP);
    return { gas, fee: needed * (base + tip), most: gas * (2n * base + tip) };
  }

  async block(): Promise<Block> {
    return ask<Block>(this.provider, "eth_getBlockByNumber", "latest", false);
  }

  /** The newest block's time, in seconds since 1970. */
  async now(): Promise<number> {
    return Number((await this.block()).timestamp);
  }

  /** The events of the deployment's contracts in logs; what others log is left out. */
  events(logs: Log[]): Event[] {
    return [...this.deployment.contracts.values()].flatMap(({ name: contract, address, abi }) => {
      const own = logs.filter((log) => log.address.toLowerCase() === address.toLowerCase());
      const parsed = parseEventLogs({ abi, logs: own as never, strict: true });
      return parsed.map((each) => {
        const { eventName, args } = each as unknown as { eventName: string; args: Event["args"] };
        return { name: eventName, contract, args };
      });
    });
  }
}
