// A map without tiles: land, a grid of degrees, and the places in the results.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { plural } from "../components/number.ts";
import type { Prefixes } from "../rdf/prefixes.ts";
import { nodeLink } from "../route.ts";
import { localName, termText } from "../rdf/term.ts";
import type { Row } from "../server/result-stream.ts";
import { placesOf, type Place, type Position } from "./places.ts";
import { usePanZoom, ZoomButtons, type Box } from "../graph/pan-zoom.tsx";

const WORLD: Box = { x: -180, y: -90, width: 360, height: 180 };
const STEPS = [30, 15, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.01];

export function GeoMap(props: { columns: string[]; rows: Row[]; prefixes: Prefixes; dataset: string | null }) {
  const { columns, rows, prefixes, dataset } = props;
  const places = useMemo(() => placesOf(columns, rows), [columns, rows, rows.length]);
  const [land, setLand] = useState("");
  const [chosen, setChosen] = useState<number | null>(null);
  useEffect(() => {
    // The outlines are loaded only for a map.
    void import("./land.ts").then(({ LAND }) => setLand(LAND));
  }, []);
  const svg = useRef<SVGSVGElement>(null);
  const bounds = useMemo(() => boundsOf(places), [places]);
  const { box, handlers, zoom, fit } = usePanZoom(svg, bounds, WORLD.width / 20_000, WORLD.width * 1.1);
  const pixel = box.width / (svg.current?.clientWidth || 800);
  return (
    <div class="map">
      <svg
        ref={svg} class="map-drawing" viewBox={`${box.x} ${box.y} ${box.width} ${box.height}`} {...handlers}
        role="group" tabIndex={0} aria-label={`Map of ${plural(places.length, "place")}. Arrow keys move it, plus and minus zoom.`}
      >
        <clipPath id="world"><rect x={-180} y={-90} width={360} height={180} /></clipPath>
        <rect class="sea" x={-180} y={-90} width={360} height={180} />
        <path class="land" d={land} clip-path="url(#world)" />
        <Graticule box={box} pixel={pixel} />
        {places.map((place, at) => (
          <Shape key={at} place={place} pixel={pixel} chosen={chosen === place.row} choose={() => setChosen(place.row)} />
        ))}
      </svg>
      <ZoomButtons zoom={zoom} fit={fit} />
      {chosen !== null && rows[chosen] && (
        <Chosen row={rows[chosen]} prefixes={prefixes} dataset={dataset} close={() => setChosen(null)} />
      )}
    </div>
  );
}

function Chosen(props: { row: Row; prefixes: Prefixes; dataset: string | null; close: () => void }) {
  const { row, prefixes, dataset, close } = props;
  return (
    <div class="map-chosen" role="status">
      <button type="button" class="quiet icon" aria-label="Close" onClick={close}>×</button>
      <dl>
        {Object.entries(row).map(([name, term]) => (
          <div key={name}><dt>{name}</dt><dd>
            {term.type === "uri"
              ? <a href={nodeLink(dataset, term.value)} title={term.value}>{localName(term.value)}</a>
              : termText(term, prefixes).slice(0, 200)}
          </dd></div>
        ))}
      </dl>
    </div>
  );
}

function Shape({ place, pixel, chosen, choose }: { place: Place; pixel: number; chosen: boolean; choose: () => void }) {
  const look = chosen ? "place chosen" : "place";
  if (place.shape === "point") {
    return <>{place.parts.flat().map(([x, y], at) => <circle key={at} class={look} cx={x} cy={-y} r={(chosen ? 7 : 4.5) * pixel} onClick={choose} />)}</>;
  }
  const close = place.shape === "area" ? "Z" : "";
  const d = place.parts.map((part) => `M${part.map(([x, y]) => `${x} ${-y}`).join("L")}${close}`).join("");
  return <path class={`${look} ${place.shape}`} d={d} onClick={choose} />;
}

function Graticule({ box, pixel }: { box: Box; pixel: number }) {
  const step = STEPS.find((degrees) => box.width / degrees >= 5) ?? 0.01;
  const lines = (from: number, length: number, most: number) => {
    const found: number[] = [];
    const first = Math.ceil(Math.max(-most, from) / step);
    for (let at = first; at * step <= Math.min(most, from + length); at++) found.push(Number((at * step).toFixed(4)));
    return found;
  };
  const size = 11 * pixel;
  return (
    <g class="graticule" aria-hidden="true">
      {lines(box.x, box.width, 180).map((x) => (
        <g key={`x${x}`}>
          <line x1={x} x2={x} y1={-90} y2={90} />
          <text x={x + 3 * pixel} y={box.y + box.height - 5 * pixel} font-size={size}>{degrees(x, "E", "W")}</text>
        </g>
      ))}
      {lines(box.y, box.height, 90).map((y) => (
        <g key={`y${y}`}>
          <line x1={-180} x2={180} y1={y} y2={y} />
          <text x={box.x + 4 * pixel} y={y - 3 * pixel} font-size={size}>{degrees(-y, "N", "S")}</text>
        </g>
      ))}
    </g>
  );
}

function degrees(value: number, above: string, below: string): string {
  return `${Math.abs(value)}°${value === 0 ? "" : value > 0 ? above : below}`;
}

function boundsOf(places: Place[]): Box {
  const all: Position[] = places.flatMap((place) => place.parts.flat());
  if (all.length === 0) return WORLD;
  const [first] = all as [Position];
  const edges = all.reduce(
    ({ w, e, s, n }, [x, y]) => ({ w: Math.min(w, x), e: Math.max(e, x), s: Math.min(s, y), n: Math.max(n, y) }),
    { w: first[0], e: first[0], s: first[1], n: first[1] },
  );
  const margin = Math.max(0.5, (edges.e - edges.w) * 0.08, (edges.n - edges.s) * 0.08);
  return {
    x: edges.w - margin, y: -edges.n - margin,
    width: edges.e - edges.w + 2 * margin, height: edges.n - edges.s + 2 * margin,
  };
}
