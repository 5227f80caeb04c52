import { defineConfig } from "vite";

// Relative addresses, so that the page works below any path of a reverse proxy; nothing inlined,
// as the server's content security policy forbids inline scripts, styles and data: addresses.
export default defineConfig({
  base: "./",
  build: {
    target: ["chrome123", "firefox121", "safari17.5"],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 700,
  },
});
