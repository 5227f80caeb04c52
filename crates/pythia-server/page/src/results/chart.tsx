// Charts of chosen columns: bars, lines, points and shares.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { count, shortCount } from "../components/number.ts";
import type { Prefixes } from "../rdf/prefixes.ts";
import { localName, numberOf, termText, timeOf } from "../rdf/term.ts";
import type { Row } from "../server/result-stream.ts";
import { linear, type Scale } from "./scale.ts";

type Kind = "bar" | "line" | "scatter" | "share";
interface Point { label: string; x: number | null; y: number }

const KINDS: [Kind, string][] = [["bar", "Bars"], ["line", "Line"], ["scatter", "Points"], ["share", "Shares"]];
/** Maximum number of points. More could not be distinguished. */
const MOST: Record<Kind, number> = { bar: 60, line: 5000, scatter: 5000, share: 12 };
const HEIGHT = 380;
const LEFT = 64;
const BOTTOM = 44;
const BAR = 26;

export function Chart({ columns, rows, prefixes }: { columns: string[]; rows: Row[]; prefixes: Prefixes }) {
  const numeric = columns.filter((column) => rows.slice(0, 100).some((row) => numberOf(row[column]) !== null));
  const [kind, setKind] = useState<Kind>("bar");
  const [xColumn, setX] = useState<string | null>(null);
  const [yColumn, setY] = useState<string | null>(null);
  const y = yColumn !== null && columns.includes(yColumn) ? yColumn : numeric.at(-1) ?? null;
  const x = xColumn !== null && columns.includes(xColumn) ? xColumn : columns.find((column) => column !== y) ?? y ?? "";
  if (y === null) return <p class="note">A chart needs a column of numbers. This result has none.</p>;
  const points = pointsOf(rows, x, y, prefixes, kind);
  return (
    <div class="chart">
      <div class="controls">
        <Choice label="Chart" value={kind} options={KINDS} choose={setKind} />
        <Choice label={kind === "scatter" || kind === "line" ? "Horizontal" : "Names"} value={x} options={columns.map((column) => [column, column])} choose={setX} />
        <Choice label="Values" value={y} options={numeric.map((column) => [column, column])} choose={setY} />
        {kind !== "share" && rows.length > points.length && <span class="note">{count(points.length)} of {count(rows.length)} rows</span>}
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
  const frame = useRef<HTMLDivElement>(null);
  const width = useWidth(frame);
  if (points.length === 0) return <p class="note">No row has a number in this column.</p>;
  const what = `${KINDS.find(([key]) => key === kind)?.[1]} of ${y} by ${x}, ${count(points.length)} values`;
  const height = kind === "bar" ? points.length * BAR + 34 : HEIGHT;
  return (
    <div class="frame" ref={frame}>
      {kind === "share"
        ? <Shares points={points} what={what} width={width} />
        : <svg class="drawing" width={width} height={height} role="img" aria-label={what}>
            {kind === "bar"
              ? <Bars points={points} width={width} height={height} />
              : <>
                  <Plane points={points} joined={kind === "line"} width={width} />
                  <text class="axis-name" x={LEFT} y={14}>{y}</text>
                  <text class="axis-name" x={width - 4} y={HEIGHT - 6} text-anchor="end">{x}</text>
                </>}
          </svg>}
    </div>
  );
}

/** Returns the width of an element, and updates it when the element changes. */
function useWidth(element: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(600);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.max(240, Math.floor(entry?.contentRect.width ?? 600))));
    if (element.current) observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return width;
}

/** The bars are horizontal, so that their names can be read. */
function Bars({ points, width, height }: { points: Point[]; width: number; height: number }) {
  const values = points.map((point) => point.y);
  const longest = greatest(points.map(({ label }) => label.length));
  const names = Math.min(longest * 6.6 + 14, width * 0.38);
  const characters = Math.floor((names - 14) / 6.4);
  const scale = linear(Math.min(0, ...values), Math.max(0, ...values), names, width - 56);
  return (
    <>
      {scale.ticks.map((tick) => (
        <g key={tick}>
          <line class="grid" x1={scale.place(tick)} x2={scale.place(tick)} y1={0} y2={height - 26} />
          <text class="tick" x={scale.place(tick)} y={height - 8} text-anchor="middle">{shortCount(tick)}</text>
        </g>
      ))}
      {points.map(({ label, y }, at) => {
        const [left, right] = [scale.place(Math.min(0, y)), scale.place(Math.max(0, y))];
        const name = label.length > characters + 1 ? `${label.slice(0, characters)}…` : label;
        return (
          <g key={at}>
            <title>{`${label}: ${count(y)}`}</title>
            <text class="name" x={names - 8} y={at * BAR + 17} text-anchor="end">{name}</text>
            <rect class="mark-fill" x={left} width={Math.max(1, right - left)} y={at * BAR + 4} height={BAR - 8} rx={2} />
            <text class="tick" x={right + 6} y={at * BAR + 17}>{shortCount(y)}</text>
          </g>
        );
      })}
    </>
  );
}

function Plane({ points, joined, width }: { points: Point[]; joined: boolean; width: number }) {
  const across = points.map(({ x }, at) => x ?? at);
  const times = points.some(({ label, x }) => x !== null && Math.abs(x) > 1e9 && /^-?\d{4}/.test(label));
  const horizontal = linear(least(across), greatest(across), LEFT + 8, width - 16);
  const values = points.map((point) => point.y);
  const vertical = linear(least(values), greatest(values), HEIGHT - BOTTOM, 26);
  const places = points.map((point, at) => ({ ...point, left: horizontal.place(across[at] ?? 0), top: vertical.place(point.y) }));
  return (
    <>
      <Grid scale={vertical} width={width} />
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

function Grid({ scale, width }: { scale: Scale; width: number }) {
  return (
    <>
      {scale.ticks.map((tick) => (
        <g key={tick}>
          <line class="grid" x1={LEFT} x2={width} y1={scale.place(tick)} y2={scale.place(tick)} />
          <text class="tick" x={LEFT - 8} y={scale.place(tick) + 4} text-anchor="end">{shortCount(tick)}</text>
        </g>
      ))}
    </>
  );
}

/** Shares of the whole, as a stacked bar with a legend, which is easier to compare than a pie chart. */
function Shares({ points, what, width }: { points: Point[]; what: string; width: number }) {
  const positive = points.filter(({ y }) => y > 0);
  const whole = positive.reduce((sum, { y }) => sum + y, 0) || 1;
  let left = 0;
  return (
    <div class="shares">
      <svg class="drawing" width={width} height={56} role="img" aria-label={what}>
        {positive.map(({ label, y }, at) => {
          const wide = (y / whole) * width;
          const part = <rect key={at} class={`share share-${at % 12}`} x={left} y={0} width={Math.max(0.5, wide - 1.5)} height={56}><title>{`${label}: ${count(y)}`}</title></rect>;
          left += wide;
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

// Spread arguments have a maximum number, which thousands of points would exceed.
const least = (values: number[]) => values.reduce((a, b) => Math.min(a, b), Infinity);
const greatest = (values: number[]) => values.reduce((a, b) => Math.max(a, b), -Infinity);
