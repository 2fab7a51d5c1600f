/**
 * The TypeScript client in a browser, in the conformance set: hands each case of standard input to a page in a headless
 * Chromium (the program that CHROMIUM names) and writes what the page answers. The page's origin is http://127.0.0.1:PAGE_PORT.
 */
import { readFile, mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { chromium } from "playwright-core";

const QUIET = [
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const port = Number(process.env["PAGE_PORT"]);
const script = await readFile(new URL("./page.bundle.js", import.meta.url));
const server = createServer((request, response) => {
  const isScript = request.url === "/page.js";
  response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
  response.end(isScript ? script : '<!doctype html><title>conformance</title><script type="module" src="/page.js"></script>');
});
await new Promise<void>((listening) => server.listen(port, "127.0.0.1", listening));
const directory = await mkdtemp(join(tmpdir(), "turnwire-chromium-"));
// The sandbox needs what a container's superuser does not have; the only page is ours.
const sandbox = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
const browser = await chromium.launchPersistentContext(directory, {
  executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
  headless: true,
  args: [...QUIET, ...sandbox],
});
try {
  const page = await browser.newPage();
  page.on("console", (message) => console.error("page:", message.text()));
  page.on("pageerror", (error) => console.error("page:", error));
  await page.goto(`http://127.0.0.1:${port}/`);
  await page.waitForFunction("window.play !== undefined");
  for await (const line of createInterface({ input: process.stdin })) {
    const told: unknown = await page.evaluate(`window.play(${line})`); // JSON is JavaScript
    process.stdout.write(`${JSON.stringify(told)}\n`);
  }
} finally {
  await browser.close();
  server.close();
  server.closeAllConnections();
  await rm(directory, { recursive: true, force: true });
}
process.stdout.end(() => process.exit());
