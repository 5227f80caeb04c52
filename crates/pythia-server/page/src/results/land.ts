// The outlines of land from Natural Earth (public domain), as one SVG path in degrees.

import { feature } from "topojson-client";
import type { GeometryCollection, Topology } from "topojson-specification";
import data from "world-atlas/land-110m.json";

type Ring = [longitude: number, latitude: number][];

const topology = data as unknown as Topology<{ land: GeometryCollection }>;

export const LAND = feature(topology, topology.objects.land).features
  .flatMap(({ geometry }) => (geometry.type === "MultiPolygon" ? geometry.coordinates : geometry.type === "Polygon" ? [geometry.coordinates] : []))
  .flat()
  .flatMap((ring) => flat(ring as Ring))
  .map((ring) => `M${ring.map(([longitude, latitude]) => `${longitude.toFixed(2)} ${(-latitude).toFixed(2)}`).join("L")}Z`)
  .join("");

/** Maps a ring on the globe to the plane. A ring that crosses the date line is drawn at both edges. */
function flat(ring: Ring): Ring[] {
  const unrolled: Ring = [];
  let turns = 0;
  ring.forEach(([longitude, latitude], at) => {
    const before = ring[at - 1]?.[0] ?? longitude;
    if (Math.abs(longitude - before) > 180) turns += longitude < before ? 360 : -360;
    unrolled.push([longitude + turns, latitude]);
  });
  // A ring around the globe contains a pole.
  if (turns !== 0) {
    const pole = (unrolled[0]?.[1] ?? 0) < 0 ? -90 : 90;
    unrolled.push([unrolled.at(-1)?.[0] ?? 0, pole], [unrolled[0]?.[0] ?? 0, pole]);
  }
  const longitudes = unrolled.map(([longitude]) => longitude);
  const copies = [0];
  if (Math.max(...longitudes) > 180) copies.push(-360);
  if (Math.min(...longitudes) < -180) copies.push(360);
  return copies.map((shift) => unrolled.map(([longitude, latitude]) => [longitude + shift, latitude]));
}
