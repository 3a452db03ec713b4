import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// Development server: URL of the control plane, and a token.
const server = process.env["TOWLINE_URL"] ?? "http://127.0.0.1:8080";

const token = process.env["TOWLINE_TOKEN"];
const headers = token === undefined ? {} : { Authorization: `Bearer ${token}` };
// The control plane rejects a sign-in if the Origin header does not match the Host header.
const plain = { target: server, changeOrigin: false };

export default defineConfig({
  plugins: [react()],
  build: {
    target: "es2023",
    // No inline assets: the Content Security Policy of the page forbids them.
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
  // One document for all test files of a worker: making one takes longer than most files.
  test: { environment: "jsdom", isolate: false, include: ["tests/**/*.test.{ts,tsx}"], setupFiles: ["tests/setup.ts"], testTimeout: 60_000, restoreMocks: true },
});
