import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

/**
 * Modules that most pages need together come as one file: each file costs a request, and headers of almost a KiB.
 * What the frame is drawn with is apart from calls, and those from what daggers need; none may need one behind it.
 */
const TOGETHER: [string, RegExp][] = [
  [
    "frame",
    /\/node_modules\/(svelte|esm-env|clsx)\/|\/src\/lib\/(clock\.svelte|connection\.svelte|format|locale|narrow|route\.svelte|second)\.ts$/,
  ],
  [
    "calls",
    /\/node_modules\/@(bufbuild|connectrpc)\/|\/src\/lib\/(commands|problem|rpc\/(access|transport))\.ts$|\/gen\/daggers\/v1\/(access|access_service|rules|spec)_pb\.ts$/,
  ],
  [
    "daggers",
    /\/src\/lib\/(live|phase|read\.svelte|rpc\/daggers)\.ts$|\/src\/parts\/Pill\.svelte$|\/gen\/daggers\/v1\/(dagger|dagger_service|events|findings|output|preview|query_tests|telemetry|vitals)_pb\.ts$/,
  ],
];

export default defineConfig({
  plugins: [svelte()],
  build: {
    target: "es2022",
    outDir: "../src/portal/static",
    emptyOutDir: true,
    manifest: true,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    // The finest outlines of countries are data of 3.7 MB, which a map alone reads.
    chunkSizeWarningLimit: 4000,
    rolldownOptions: {
      output: {
        codeSplitting: {
          includeDependenciesRecursively: false,
          groups: TOGETHER.map(([name, test]) => ({ name, test })),
        },
      },
    },
  },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
} as Parameters<typeof defineConfig>[0]);
