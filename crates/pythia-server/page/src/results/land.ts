// The outlines of land, of Natural Earth (public domain), as one SVG path in degrees.

import { mesh } from "topojson-client";
import type { GeometryCollection, Topology } from "topojson-specification";
import data from "world-atlas/land-110m.json";

const topology = data as unknown as Topology<{ land: GeometryCollection }>;

export const LAND = mesh(topology, topology.objects.land).coordinates
  .map((ring) => `M${ring.map(([longitude = 0, latitude = 0]) => `${longitude.toFixed(2)} ${(-latitude).toFixed(2)}`).join("L")}`)
  .join("");
