// SPDX-License-Identifier: Apache-2.0
// Hears of new blocks from the server, and connects again with growing pauses when it is cut off.

/** One message of `/api/live`. */
export interface News {
  block: number;
  hash: string;
  jobs: number[];
  nodes: number[];
  reorg: boolean;
}

const FIRST_MS = 500;
const LONGEST_MS = 20_000;

/** Listens to the server's events. `missed`: called after a break, for whatever was said in it. */
export class Stream {
  private source: EventSource | null = null;
  private wait = FIRST_MS;
  private timer = 0;
  private broken = false;

  constructor(
    private readonly url: string,
    private readonly heard: (news: News) => void,
    private readonly missed: () => void,
    private readonly state: (up: boolean) => void,
  ) {}

  /** Connect now, without waiting for the pause to end. */
  open(): void {
    clearTimeout(this.timer);
    this.source?.close();
    const source = new EventSource(this.url);
    this.source = source;
    source.addEventListener("open", () => {
      this.wait = FIRST_MS;
      this.state(true);
      if (this.broken) this.missed();
      this.broken = false;
    });
    source.addEventListener("message", (event) => this.heard(JSON.parse(event.data as string) as News));
    source.addEventListener("error", () => {
      source.close();
      if (this.source !== source) return;
      this.broken = true;
      this.state(false);
      // Readers who lost the same server do not come back in the same moment.
      this.timer = window.setTimeout(() => this.open(), this.wait * (0.75 + Math.random() / 2));
      this.wait = Math.min(this.wait * 2, LONGEST_MS);
    });
  }
}
