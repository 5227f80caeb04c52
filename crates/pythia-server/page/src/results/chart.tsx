// Bars, lines, points and shares of the columns one chooses.

import { useState } from "preact/hooks";
import { count, shortCount } from "../parts/number.ts";
import type { Prefixes } from "../rdf/prefixes.ts";
import { localName, numberOf, termText, timeOf } from "../rdf/term.ts";
import type { Row } from "../server/result-stream.ts";
import { linear } from "./scale.ts";

type Kind = "bar" | "line" | "scatter" | "share";
interface Point { label: string; x: number | null; y: number }

const KINDS: [Kind, string][] = [["bar", "Bars"], ["line", "Line"], ["scatter", "Points"], ["share", "Shares"]];
/** More than these cannot be told apart. */
const MOST: Record<Kind, number> = { bar: 60, line: 5000, scatter: 5000, share: 12 };
const WIDTH = 860;
const HEIGHT = 380;
const LEFT = 64;
const BOTTOM = 44;

export function Chart({ columns, rows, prefixes }: { columns: string[]; rows: Row[]; prefixes: Prefixes }) {
  const numeric = columns.filter((column) => rows.slice(0, 100).some((row) => numberOf(row[column]) !== null));
  const [kind, setKind] = useState<Kind>("bar");
  const [xColumn, setX] = useState<string | null>(null);
  const [yColumn, setY] = useState<string | null>(null);
  const y = yColumn !== null && columns.includes(yColumn) ? yColumn : numeric.at(-1) ?? null;
  const x = xColumn !== null && columns.includes(xColumn) ? xColumn : columns.find((column) => column !== y) ?? y ?? "";
  if (y === null) return <p class="note">A chart needs a column of numbers; this result has none.</p>;
  const points = pointsOf(rows, x, y, prefixes, kind);
  return (
    <div class="chart">
      <div class="controls">
        <Choice label="Chart" value={kind} options={KINDS} choose={setKind} />
        <Choice label={kind === "scatter" || kind === "line" ? "Across" : "Names"} value={x} options={columns.map((column) => [column, column])} choose={setX} />
        <Choice label="Values" value={y} options={numeric.map((column) => [column, column])} choose={setY} />
        {rows.length > points.length && <span class="note">{count(points.length)} of {count(rows.length)} rows</span>}
      </div>
      <Drawing kind={kind} points={points} x={x} y={y} />
    </div>
  );
}

function Choice<K extends string>(props: { label: string; value: K; options: [K, string][]; choose: (key: K) => void }) {
  return (
    <label class="choice">{props.label}
      <select value={props.value} onChange={(event) => props.choose(event.currentTarget.value as K)}>
        {props.options.map(([key, label]) => <option key={key} value={key}>{label}</option>)}
      </select>
    </label>
  );
}

function Drawing({ kind, points, x, y }: { kind: Kind; points: Point[]; x: string; y: string }) {
  if (points.length === 0) return <p class="note">No row has a number here.</p>;
  const what = `${KINDS.find(([key]) => key === kind)?.[1]} of ${y} by ${x}, ${count(points.length)} values`;
  if (kind === "share") return <Shares points={points} what={what} />;
  return (
    <svg class="drawing" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={what}>
      {kind === "bar" ? <Bars points={points} /> : <Plane points={points} joined={kind === "line"} />}
      <text class="axis-name" x={LEFT} y={14}>{y}</text>
      <text class="axis-name" x={WIDTH - 4} y={HEIGHT - 6} text-anchor="end">{x}</text>
    </svg>
  );
}

function Bars({ points }: { points: Point[] }) {
  const values = points.map((point) => point.y);
  const scale = linear(Math.min(0, ...values), Math.max(0, ...values), HEIGHT - BOTTOM, 26);
  const step = (WIDTH - LEFT) / points.length;
  const characters = Math.max(3, Math.floor(step / 6.4));
  return (
    <>
      <Grid scale={scale} />
      {points.map(({ label, y }, at) => {
        const [top, bottom] = [scale.place(Math.max(0, y)), scale.place(Math.min(0, y))];
        return (
          <g key={at}>
            <rect class="mark-fill" x={LEFT + at * step + step * 0.12} width={step * 0.76} y={top} height={Math.max(1, bottom - top)} rx={2}>
              <title>{`${label}: ${count(y)}`}</title>
            </rect>
            {step > 20 && (
              <text class="tick" x={LEFT + (at + 0.5) * step} y={HEIGHT - BOTTOM + 16} text-anchor="middle">
                {label.length > characters ? `${label.slice(0, characters - 1)}…` : label}
              </text>
            )}
          </g>
        );
      })}
    </>
  );
}

function Plane({ points, joined }: { points: Point[]; joined: boolean }) {
  const across = points.map(({ x }, at) => x ?? at);
  const times = points.some(({ label, x }) => x !== null && Math.abs(x) > 1e9 && /^-?\d{4}/.test(label));
  const horizontal = linear(least(across), greatest(across), LEFT + 8, WIDTH - 16);
  const values = points.map((point) => point.y);
  const vertical = linear(least(values), greatest(values), HEIGHT - BOTTOM, 26);
  const places = points.map((point, at) => ({ ...point, left: horizontal.place(across[at] ?? 0), top: vertical.place(point.y) }));
  return (
    <>
      <Grid scale={vertical} />
      {horizontal.ticks.map((tick) => (
        <text key={tick} class="tick" x={horizontal.place(tick)} y={HEIGHT - BOTTOM + 16} text-anchor="middle">
          {times ? new Date(tick).getUTCFullYear() : shortCount(tick)}
        </text>
      ))}
      {joined && <polyline class="mark-line" points={places.map(({ left, top }) => `${left.toFixed(1)},${top.toFixed(1)}`).join(" ")} />}
      {(!joined || points.length < 200) && places.map(({ left, top, label, y }, at) => (
        <circle key={at} class="mark-point" cx={left} cy={top} r={joined ? 3 : 4}><title>{`${label}: ${count(y)}`}</title></circle>
      ))}
    </>
  );
}

function Grid({ scale }: { scale: ReturnType<typeof linear> }) {
  return (
    <>
      {scale.ticks.map((tick) => (
        <g key={tick}>
          <line class="grid" x1={LEFT} x2={WIDTH} y1={scale.place(tick)} y2={scale.place(tick)} />
          <text class="tick" x={LEFT - 8} y={scale.place(tick) + 4} text-anchor="end">{shortCount(tick)}</text>
        </g>
      ))}
    </>
  );
}

/** Shares of the whole: a stacked bar with its legend, which is easier to compare than a pie. */
function Shares({ points, what }: { points: Point[]; what: string }) {
  const positive = points.filter(({ y }) => y > 0);
  const whole = positive.reduce((sum, { y }) => sum + y, 0) || 1;
  let left = 0;
  return (
    <div class="shares">
      <svg class="drawing" viewBox={`0 0 ${WIDTH} 56`} role="img" aria-label={what}>
        {positive.map(({ label, y }, at) => {
          const width = (y / whole) * WIDTH;
          const part = <rect key={at} class={`share share-${at % 12}`} x={left} y={0} width={Math.max(0.5, width - 1.5)} height={56}><title>{`${label}: ${count(y)}`}</title></rect>;
          left += width;
          return part;
        })}
      </svg>
      <ol>
        {positive.map(({ label, y }, at) => (
          <li key={at}><span class={`swatch share-${at % 12}`} aria-hidden="true" />{label} <b class="numbers">{((y / whole) * 100).toFixed(1)} %</b> <span class="note numbers">{count(y)}</span></li>
        ))}
      </ol>
    </div>
  );
}

function pointsOf(rows: Row[], x: string, y: string, prefixes: Prefixes, kind: Kind): Point[] {
  const points: Point[] = [];
  for (const row of rows) {
    const value = numberOf(row[y]);
    if (value === null) continue;
    const term = row[x];
    const label = !term ? "" : term.type === "uri" ? localName(term.value) : termText(term, prefixes);
    points.push({ label, x: numberOf(term) ?? timeOf(term), y: value });
    if (kind !== "share" && points.length === MOST[kind]) break;
  }
  if (kind === "share") return withRest(points.sort((a, b) => b.y - a.y));
  if (kind === "line" && points.every((point) => point.x !== null)) points.sort((a, b) => (a.x ?? 0) - (b.x ?? 0));
  return points;
}

function withRest(points: Point[]): Point[] {
  if (points.length <= MOST.share) return points;
  const rest = points.slice(MOST.share - 1).reduce((sum, { y }) => sum + y, 0);
  return [...points.slice(0, MOST.share - 1), { label: "all others", x: null, y: rest }];
}

// Spread arguments have a limit that thousands of points reach.
const least = (values: number[]) => values.reduce((a, b) => Math.min(a, b), Infinity);
const greatest = (values: number[]) => values.reduce((a, b) => Math.max(a, b), -Infinity);
