import { writeFileSync } from "node:fs";
import { extname, join } from "node:path";
import { defineConfig, type Plugin } from "vite";

// Relative addresses, so that the page works below any path of a reverse proxy; nothing inlined,
// as the server's content security policy forbids inline scripts, styles and data: addresses.
export default defineConfig({
  base: "./",
  plugins: [table()],
  build: {
    target: ["chrome123", "firefox121", "safari17.5"],
    assetsInlineLimit: 0,
    license: { fileName: "LICENSES.md" },
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 700,
  },
});

const MEDIA_TYPES: Record<string, string> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Writes `assets.rs`, the table of the built files that `page.rs` includes. */
function table(): Plugin {
  return {
    name: "table",
    writeBundle({ dir = "" }, bundle) {
      const rows = Object.keys(bundle).sort().flatMap((name) => {
        const type = MEDIA_TYPES[extname(name)];
        if (type === undefined && extname(name) !== ".md") {
          throw new Error(`${name}: no media type is known for this file`);
        }
        const path = JSON.stringify(name);
        return type === undefined ? [] : `    Asset::new(${path}, "${type}", include_bytes!(${path})),\n`;
      });
      writeFileSync(join(dir, "assets.rs"), `// Written by vite.config.ts.\nvec![\n${rows.join("")}]\n`);
    },
  };
}
