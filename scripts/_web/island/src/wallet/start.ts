// SPDX-License-Identifier: Apache-2.0
// Starts the wallet's part of a page, which `main.ts` loads when it is needed.

import { begin as beginForms, submitted } from "../intents/forms";
import { begin as beginHeader, connect } from "./header";

/** Find wallets, connect again what was connected, and answer the page's forms. */
export async function begin(): Promise<void> {
  await beginHeader();
  beginForms();
}

export { connect, submitted };
