# SPDX-License-Identifier: Apache-2.0
"""How a page looks: one style sheet, light and dark, from a phone's width up.

Curves and marks use the hues of Okabe and Ito, which colour-blind readers tell apart, darkened or
lightened until they can be read on the background. No meaning rests on a colour alone.
"""

from __future__ import annotations

LIGHT = {
    "back": "#ffffff",
    "card": "#f5f6f8",
    "ink": "#1b1f24",
    "soft": "#565d66",
    "line": "#d3d7dd",
    "good": "#00694b",
    "bad": "#a8320a",
    "c0": "#0062a3",
    "c1": "#a85b00",
    "c2": "#00735a",
    "c3": "#8f3f78",
    "c4": "#b03a00",
    "c5": "#3d6f93",
    "c6": "#565d66",
}
DARK = {
    "back": "#14171b",
    "card": "#1d2127",
    "ink": "#e8eaed",
    "soft": "#a5adb8",
    "line": "#3a414a",
    "good": "#3fcf9f",
    "bad": "#ff9069",
    "c0": "#6cb8f5",
    "c1": "#f0b040",
    "c2": "#3fcf9f",
    "c3": "#e79ccb",
    "c4": "#ff9069",
    "c5": "#9fc6e3",
    "c6": "#a5adb8",
}
CURVES = sum(name.startswith("c") and name[1:].isdigit() for name in LIGHT)
"""How many colours curves have."""


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


STYLE = (
    f"""
:root {{ color-scheme: light dark; {_variables(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}
"""
    + "\n".join(f".c{place} {{ color: var(--c{place}); }}" for place in range(CURVES))
    + """
* { box-sizing: border-box; }
body { background: var(--back); color: var(--ink); font: 16px/1.55 system-ui, sans-serif;
  margin: 0 auto; max-width: 70rem; padding: 1.5rem clamp(.8rem, 3vw, 2rem) 3rem; }
h1 { font-size: clamp(1.25rem, 1rem + 1.6vw, 1.9rem); line-height: 1.3; margin: .2rem 0 .8rem; }
h2 { border-top: 1px solid var(--line); font-size: 1.25rem; margin: 2.2rem 0 .6rem;
  padding-top: 1.2rem; }
h3 { font-size: 1.05rem; margin: 1.2rem 0 .3rem; } .card > h3 { margin-top: 0; }
p { margin: .5rem 0; } h1, li, p { overflow-wrap: anywhere; } a { color: var(--c0); }
.kicker { color: var(--soft); margin: 0; }
.verdict { border-left: 4px solid var(--good); padding-left: .8rem; }
.verdict.fails { border-color: var(--bad); }
.good { color: var(--good); } .bad { color: var(--bad); } .soft { color: var(--soft); }
.small { font-size: .875rem; }
.unseen { clip-path: inset(50%); height: 1px; overflow: hidden; position: absolute;
  white-space: nowrap; width: 1px; }
nav { font-size: .9rem; } nav a { display: inline-block; margin-right: .9rem; }
.wrap { overflow-x: auto; position: relative; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; min-width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: left;
  vertical-align: top; }
th { font-weight: 600; } th[scope=row] { font-weight: 400; } .n { text-align: right; }
td.n { white-space: nowrap; } thead th { vertical-align: bottom; }
code, pre { font-family: ui-monospace, monospace; font-size: .875em; overflow-wrap: anywhere; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px; margin: .3rem 0;
  overflow-x: auto; padding: .6rem .8rem; white-space: pre-wrap; }
details > summary { cursor: pointer; }
.wei, .hash { display: inline-block; vertical-align: top; }
.wei > summary, .hash > summary { list-style: none; text-decoration: underline dotted;
  text-underline-offset: .2em; }
.wei > summary::-webkit-details-marker, .hash > summary::-webkit-details-marker { display: none; }
.wei[open], .hash[open] { color: var(--soft); font-size: .875rem; overflow-wrap: anywhere;
  white-space: normal; }
.exact { display: inline-block; } .exact[open] { display: block; }
.fold { margin: .8rem 0; } .fold > summary { font-weight: 600; }
.cards { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }
.charts { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 20rem), 1fr)); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; margin: 0;
  min-width: 0; padding: .8rem 1rem; }
dl { display: grid; gap: .25rem .8rem; grid-template-columns: max-content minmax(0, 1fr);
  margin: 0; }
.card dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
.card dt { margin-top: .5rem; } .card ul { margin: 0; }
dt { color: var(--soft); } dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
ul { padding-left: 1.2rem; } .plain { list-style: none; padding: 0; }
figure svg { display: block; height: auto; max-width: 32rem; width: 100%; }
figcaption { font-weight: 600; margin-bottom: .3rem; }
.legend { display: flex; flex-wrap: wrap; font-size: .85rem; gap: .1rem .9rem; list-style: none;
  margin: .4rem 0 0; padding: 0; }
.legend svg { display: inline-block; height: .8rem; vertical-align: middle; width: 1.8rem; }
.paper { background: #ffffff; color: #1b1f24; }
.paper svg { max-width: 48rem; min-width: 36rem; }
.axis { fill: var(--soft); font: 15px system-ui, sans-serif; }
.grid { stroke: var(--line); stroke-width: 1; } .zero { stroke: var(--soft); stroke-width: 1; }
.curve { fill: none; stroke: currentColor; stroke-linejoin: round; stroke-width: 2; }
.mark { fill: currentColor; } .swatch { background: currentColor; border-radius: 3px;
  display: inline-block; height: .8rem; margin-right: .4rem; vertical-align: -.05rem;
  width: .8rem; }
.lanes td, .lanes thead th { text-align: center; white-space: nowrap; }
.lanes th[scope=row] { background: var(--back); left: 0; min-width: 7rem; position: sticky;
  z-index: 1; }
.lanes thead th:first-child { background: var(--back); left: 0; position: sticky;
  text-align: left; z-index: 1; }
.lanes tr.first > * { border-top: 2px solid var(--line); }
.lane { font-size: 1.1rem; line-height: 1.2; } .lane small { display: block; font-size: .72rem; }
.flow { border-radius: 6px; display: flex; gap: 2px; height: 1.8rem; margin: .3rem 0;
  overflow: hidden; }
.flow > span { background: currentColor; min-width: 3px; }
@media (max-width: 34rem) { dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dd { margin-bottom: .5rem; } .charts { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 20rem), 1fr)); }
.card { padding: .7rem .8rem; } }
@media print { details:not([open]) > *:not(summary) { display: block; } }
"""
)
