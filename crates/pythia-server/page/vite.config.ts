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

/** Each file with its compressed twin, so that the server compresses nothing. */
function compressed(): Plugin {
  return {
    name: "compressed",
    enforce: "post",
    generateBundle(_, bundle) {
      for (const [fileName, file] of Object.entries(bundle)) {
        const source = gzipSync(file.type === "chunk" ? file.code : file.source, { level: 9 });
        this.emitFile({ type: "asset", fileName: `${fileName}.gz`, source });
      }
    },
  };
}
