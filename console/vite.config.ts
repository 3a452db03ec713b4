import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// While developing: the control plane to talk to, and a token to talk with.
const server = process.env["TOWLINE_URL"] ?? "http://127.0.0.1:8080";

const token = process.env["TOWLINE_TOKEN"];
const headers = token === undefined ? {} : { Authorization: `Bearer ${token}` };
// The server lets nobody sign in from a page of another origin than the Host that it is asked for.
const plain = { target: server, changeOrigin: false };

export default defineConfig({
  plugins: [react()],
  build: {
    target: "es2023",
    // Nothing inline: the page is served under a Content-Security-Policy that forbids it.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  server: {
    proxy: {
      "/gql": { ...plain, ws: true, headers },
      "/k8s": { ...plain, ws: true, headers },
      "/oauth": plain,
      "/setup": plain,
      "/readyz": plain,
      "/audit/export": plain,
    },
  },
  test: { environment: "jsdom", include: ["tests/**/*.test.{ts,tsx}"], restoreMocks: true },
});
