// Places in results: WKT literals, or a column of latitudes together with a column of longitudes.

import { numberOf, WKT, type Term } from "../rdf/term.ts";
import type { Row } from "../server/result-stream.ts";

export type Position = [longitude: number, latitude: number];
export interface Place { row: number; shape: "point" | "line" | "area"; parts: Position[][] }

const SHAPES: Record<string, Place["shape"]> = {
  POINT: "point", MULTIPOINT: "point", LINESTRING: "line", MULTILINESTRING: "line", POLYGON: "area", MULTIPOLYGON: "area",
};
const LATITUDE = /^(?:lat|latitude|.*_lat|.*latitude)$/i;
const LONGITUDE = /^(?:lon|long|lng|longitude|.*_(?:lon|long|lng)|.*longitude)$/i;
/** Literals with coordinate systems other than CRS84 and WGS 84 are left out, because they would be misplaced. */
const SYSTEM = /^\s*<([^>]*)>\s*/;

export function placesOf(columns: string[], rows: Row[]): Place[] {
  const latitude = columns.find((column) => LATITUDE.test(column));
  const longitude = columns.find((column) => LONGITUDE.test(column));
  return rows.flatMap((row, at) => {
    const shapes = columns.map((column) => wkt(row[column])).filter((shape) => shape !== null);
    if (shapes.length === 0 && latitude && longitude) {
      const position = positionOf(numberOf(row[longitude]), numberOf(row[latitude]));
      if (position) shapes.push({ shape: "point", parts: [[position]] });
    }
    return shapes.map((shape) => ({ row: at, ...shape }));
  });
}

function wkt(term: Term | undefined): Omit<Place, "row"> | null {
  if (term?.type !== "literal" || term.datatype !== WKT) return null;
  const system = SYSTEM.exec(term.value)?.[1];
  const swapped = system !== undefined && /EPSG\/.*\/4326$/i.test(system);
  if (system !== undefined && !swapped && !/CRS84$/i.test(system)) return null;
  const found = /^\s*([A-Z]+)\s*(?:Z|M|ZM)?\s*(\(.*\))\s*$/is.exec(term.value.replace(SYSTEM, ""));
  const shape = SHAPES[found?.[1]?.toUpperCase() ?? ""];
  if (!found?.[2] || !shape) return null;
  // Each innermost pair of brackets is a line, a ring, or a list of points.
  const parts = [...found[2].matchAll(/\(([^()]*)\)/g)].map(([, list]) => positions(list ?? "", swapped));
  return parts.some((part) => part.length > 0) ? { shape, parts } : null;
}

function positions(list: string, swapped: boolean): Position[] {
  return list.split(",").flatMap((text) => {
    const [first, second] = text.trim().split(/\s+/).map(Number);
    const position = swapped ? positionOf(second, first) : positionOf(first, second);
    return position ? [position] : [];
  });
}

function positionOf(longitude: number | null | undefined, latitude: number | null | undefined): Position | null {
  const on = (value: number | null | undefined, most: number): value is number => value != null && Math.abs(value) <= most;
  return on(longitude, 180) && on(latitude, 90) ? [longitude, latitude] : null;
}
