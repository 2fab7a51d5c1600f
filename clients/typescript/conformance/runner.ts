/** The TypeScript client on Node.js in the conformance set: a case per line on standard input, an answer per line back. */
import { createInterface } from "node:readline";

import { createNodeClient } from "../src/node.js";
import { play, type Case } from "./play.js";

for await (const line of createInterface({ input: process.stdin })) {
  const given = JSON.parse(line) as Case;
  const told = await play(given, ({ target, token }, resume) => createNodeClient(target, { token, resume }));
  process.stdout.write(`${JSON.stringify(told)}\n`);
}
process.stdout.end(() => process.exit()); // connections that are idle would keep it
