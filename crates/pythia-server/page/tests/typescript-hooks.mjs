import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { transformWithOxc } from "vite";

/** Types taken off; everything else is as Node has it. */
export async function load(url, context, next) {
  if (!url.endsWith(".ts")) return next(url, context);
  const file = fileURLToPath(url);
  const { code } = await transformWithOxc(await readFile(file, "utf8"), file, { sourcemap: false });
  return { format: "module", source: code, shortCircuit: true };
}
