import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

// Relative addresses, so that the page works below any path of a reverse proxy; nothing inlined,
// as the server's content security policy forbids inline scripts, styles and data: addresses.
export default defineConfig({
  base: "./",
  plugins: [compressed()],
  build: {
    target: ["chrome123", "firefox121", "safari17.5"],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 700,
  },
});

/** Each file with its compressed twin, made when all is written, so that the server compresses nothing. */
function compressed(): Plugin {
  return {
    name: "compressed",
    writeBundle({ dir = "" }, bundle) {
      for (const name of Object.keys(bundle)) {
        const file = join(dir, name);
        writeFileSync(`${file}.gz`, gzipSync(readFileSync(file), { level: 9 }));
      }
    },
  };
}
