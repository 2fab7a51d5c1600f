/**
 * Client of Turnwire. The messages and services of the contract are in `@turnwire/client/turnwire/v1/*`; `./node` and
 * `./web` make a client for where the program runs.
 */
export { Client, MAX_MESSAGE_BYTES, UNARY_TIMEOUT_MS, type ClientOptions, type FollowOptions } from "./client.js";
export { DEFAULT_RESUME, isCut, Reader, StreamLost, type Resume, type Update } from "./cursor.js";
export { errorOf, TurnwireError } from "./errors.js";
export { ALWAYS, Json, ONCE, reject, type Decision, type RunOptions, type Tool } from "./run.js";
export { RunView } from "./view.js";
