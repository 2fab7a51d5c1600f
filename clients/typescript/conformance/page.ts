/** The client as a page has it: what the browser runs for each case of the conformance set. */
import { createWebClient } from "../src/web.js";
import { play, type Case } from "./play.js";

declare global {
  interface Window {
    play: (given: Case) => Promise<object>;
  }
}

window.play = (given) => play(given, ({ target, token }, resume) => createWebClient(target, { token, resume }));
