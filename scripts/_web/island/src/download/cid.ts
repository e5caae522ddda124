// SPDX-License-Identifier: Apache-2.0
// Computes the CID of a file in the browser: what the network calls its artefacts by.
//
// It is CIDv1 with sha2-256 of a balanced UnixFS DAG: chunks of 256 KiB as raw leaves, at most 174
// children a node. `agents/storage/cid.py` is the same in Python, and the same vectors test both.

const CHUNK = 262_144;
const MAX_LINKS = 174;
const RAW = 0x55;
const DAG_PB = 0x70;
const SHA256 = [0x12, 0x20];
const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";

/** A node of the DAG. `fileSize`: content bytes below it; `dagSize`: bytes of all blocks. */
interface Node {
  cid: Uint8Array;
  fileSize: number;
  dagSize: number;
}

/** Encode a number as protobuf has it. Works beyond 32 bits, so without shifts. */
function varint(value: number): number[] {
  const out = [];
  while (value > 0x7f) {
    out.push((value % 0x80) | 0x80);
    value = Math.floor(value / 0x80);
  }
  out.push(value);
  return out;
}

function field(number: number, payload: number[]): number[] {
  return [...varint((number << 3) | 2), ...varint(payload.length), ...payload];
}

async function cidOf(block: Uint8Array<ArrayBuffer>, codec: number): Promise<Uint8Array> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", block));
  return new Uint8Array([1, codec, ...SHA256, ...digest]);
}

async function parent(children: Node[]): Promise<Node> {
  const links = children.flatMap((child) =>
    field(2, [...field(1, [...child.cid]), 0x12, 0x00, 0x18, ...varint(child.dagSize)]),
  );
  const fileSize = children.reduce((sum, child) => sum + child.fileSize, 0);
  const sizes = children.flatMap((child) => [0x20, ...varint(child.fileSize)]);
  const unixfs = [0x08, 0x02, 0x18, ...varint(fileSize), ...sizes];
  const block = new Uint8Array([...links, ...field(1, unixfs)]);
  const below = children.reduce((sum, child) => sum + child.dagSize, 0);
  return { cid: await cidOf(block, DAG_PB), fileSize, dagSize: below + block.length };
}

/** Spell a binary CID: base32 in lower case, after a `b`. */
function spelled(cid: Uint8Array): string {
  let text = "b";
  let held = 0;
  let bits = 0;
  for (const byte of cid) {
    held = (held << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += BASE32.charAt((held >> bits) & 31);
    }
    held &= (1 << bits) - 1;
  }
  return bits ? text + BASE32.charAt((held << (5 - bits)) & 31) : text;
}

/** The digest inside a CID, in hexadecimal: its form on chain. Null where the text is no CID of this network. */
export function digestOf(text: string): string | null {
  const bytes = [];
  let held = 0;
  let bits = 0;
  for (const letter of text.slice(1)) {
    const value = BASE32.indexOf(letter);
    if (value < 0) return null;
    held = (held << 5) | value;
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push((held >> bits) & 0xff);
    held &= (1 << bits) - 1;
  }
  const [version, codec, ...rest] = bytes;
  const known = version === 1 && (codec === RAW || codec === DAG_PB) && rest.length === 34;
  if (!known || SHA256.some((byte, at) => rest[at] !== byte)) return null;
  if (spelled(new Uint8Array(bytes)) !== text) return null; // one text for each CID
  return `0x${rest.slice(2).map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** Computes the CID of content that arrives in pieces of any size. */
export class CidBuilder {
  /** Content bytes seen so far. */
  size = 0;
  private readonly pending = new Uint8Array(CHUNK);
  private filled = 0;
  private readonly levels: Node[][] = [];

  /** Append bytes. The call must have ended before the next one. */
  async update(piece: Uint8Array): Promise<void> {
    this.size += piece.length;
    for (let at = 0; at < piece.length; ) {
      const taken = Math.min(CHUNK - this.filled, piece.length - at);
      this.pending.set(piece.subarray(at, at + taken), this.filled);
      this.filled += taken;
      at += taken;
      if (this.filled === CHUNK) await this.leaf();
    }
  }

  /** The CID of everything seen. Nothing may be appended after it. */
  async cid(): Promise<string> {
    if (this.filled || !this.levels.length) await this.leaf();
    for (let at = 0; ; at++) {
      const level = this.levels[at] ?? [];
      const last = at === this.levels.length - 1;
      const [only] = level;
      if (last && level.length === 1 && only) return spelled(only.cid);
      await this.push(at + 1, await parent(level));
    }
  }

  private async leaf(): Promise<void> {
    const data = this.pending.slice(0, this.filled);
    this.filled = 0;
    const cid = await cidOf(data, RAW);
    await this.push(0, { cid, fileSize: data.length, dagSize: data.length });
  }

  /** A full level is folded only when one more node arrives: it may be the root's own children. */
  private async push(at: number, node: Node): Promise<void> {
    const level = (this.levels[at] ??= []);
    if (level.length === MAX_LINKS) {
      const full = level.splice(0);
      await this.push(at + 1, await parent(full));
    }
    level.push(node);
  }
}
