// SPDX-License-Identifier: Apache-2.0
// Asks a chain: through a wallet (EIP-1193) or through an RPC node over HTTP.

/** What EIP-1193 promises of a wallet. */
export interface Provider {
  request(args: { method: string; params?: readonly unknown[] }): Promise<unknown>;
  on?(event: string, listener: (value: never) => void): unknown;
  removeListener?(event: string, listener: (value: never) => void): unknown;
}

export type Hex = `0x${string}`;

/** A log entry as JSON-RPC has it. */
export interface Log {
  address: Hex;
  topics: [Hex, ...Hex[]];
  data: Hex;
}

export interface Receipt {
  status: Hex;
  blockNumber: Hex;
  blockHash: Hex;
  transactionHash: Hex;
  logs: Log[];
}

export interface Transaction {
  hash: Hex;
  from: Hex;
  to: Hex | null;
  nonce: Hex;
  input: Hex;
  value: Hex;
  blockNumber: Hex | null;
}

export interface Block {
  number: Hex;
  hash: Hex;
  timestamp: Hex;
  baseFeePerGas?: Hex;
  transactions: Transaction[] | Hex[];
}

/** What a provider answers with where it refuses. */
export interface RpcError {
  code: number;
  message: string;
  data?: unknown;
}

/** Whether something thrown is a refusal of EIP-1193 or JSON-RPC, and not a network failure. */
export function isRpcError(error: unknown): error is RpcError {
  return (
    typeof error === "object" &&
    error !== null &&
    typeof (error as RpcError).code === "number" &&
    typeof (error as RpcError).message === "string"
  );
}

export async function ask<T>(
  provider: Provider,
  method: string,
  ...params: unknown[]
): Promise<T> {
  return (await provider.request({ method, params })) as T;
}

/** An RPC node as a provider that reads. A failed request throws a TypeError, as `fetch` does. */
export function overHttp(url: string): Provider {
  let id = 0;
  return {
    async request({ method, params }) {
      const answer = await fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ jsonrpc: "2.0", id: ++id, method, params: params ?? [] }),
        signal: AbortSignal.timeout(15_000),
      });
      if (!answer.ok) throw new TypeError(`The RPC node answered with status ${answer.status}.`);
      const body = (await answer.json()) as { result?: unknown; error?: RpcError };
      if (body.error) throw body.error;
      return body.result;
    },
  };
}
