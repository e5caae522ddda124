// SPDX-License-Identifier: Apache-2.0
// Every action that a wallet can sign, by the name in a form's `data-action`.

import type { Action } from "../intents/intent";
import { appealActions } from "./appeals";
import { claimActions } from "./claim";
import { committeeActions } from "./committee";
import { operatorActions } from "./operator";
import { sponsorActions } from "./sponsor";

export const actions: Record<string, Action> = {
  ...appealActions,
  ...claimActions,
  ...committeeActions,
  ...operatorActions,
  ...sponsorActions,
};
