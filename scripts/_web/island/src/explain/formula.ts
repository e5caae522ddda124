// SPDX-License-Identifier: Apache-2.0
// Evaluates the formulas of an explanation with integers, as the contracts do.
//
// A formula names its terms in words, between ` + `, ` - `, ` x ` and ` / `, and is read from left to
// right without precedence; `/` rounds down. A term that counts `of 10,000` divides by 10,000 where
// it multiplies.

/** A number of a formula, as the JSON of an explanation has it. */
export interface Term {
  name: string;
  value: string;
  unit: string;
}

const SHARE = "of 10,000";
const BPS = 10_000n;
const OPERATORS = [" + ", " - ", " x ", " / "];

/** Split a formula into term names and operators. Throws an Error for a name that is not given. */
export function parse(formula: string, names: string[]): string[] {
  const longest = [...names].sort((a, b) => b.length - a.length);
  const parts = [];
  let rest = formula;
  for (;;) {
    const name = longest.find(
      (each) => rest === each || OPERATORS.some((op) => rest.startsWith(each + op)),
    );
    if (name === undefined) throw new Error(`“${rest}” begins with no number that is given.`);
    parts.push(name);
    rest = rest.slice(name.length);
    if (!rest) return parts;
    parts.push(rest.slice(0, 3).trim());
    rest = rest.slice(3);
  }
}

/** Compute a formula. Throws an Error where it divides by zero or names what is not given. */
export function evaluate(formula: string, terms: Term[]): bigint {
  const given = new Map(terms.map((term) => [term.name, term]));
  const parts = parse(formula, [...given.keys()]);
  const number = (name: string): bigint => BigInt((given.get(name) as Term).value);
  let result = number(parts[0] as string);
  for (let at = 1; at < parts.length; at += 2) {
    const name = parts[at + 1] as string;
    const value = number(name);
    switch (parts[at]) {
      case "+":
        result += value;
        break;
      case "-":
        result -= value;
        break;
      case "x":
        result *= value;
        if (given.get(name)?.unit === SHARE) result /= BPS;
        break;
      default:
        if (value === 0n) throw new Error(`“${name}” is zero, and nothing can be divided by it.`);
        result /= value;
    }
  }
  return result;
}
