/** Runs one turn and shows it as it comes: node ask.js 127.0.0.1:7443 "What time is it in Tokyo?". */
import { argv, env, exit, stdout } from "node:process";

import { createNodeClient } from "../src/node.js";
import { Role } from "../src/turnwire/v1/message_pb.js";
import { OutcomeKindSchema } from "../src/turnwire/v1/outcome_pb.js";

const [, , address, question] = argv;
if (address === undefined || question === undefined) {
  console.error("usage: ask ADDRESS QUESTION");
  exit(2);
}

const client = createNodeClient(address, { token: env["TURNWIRE_TOKEN"] });
const parts = [{ content: { case: "text" as const, value: question } }];
const { outcome } = await client.run(
  { turn: { input: [{ role: Role.USER, parts }] } },
  {
    onUpdate({ events }) {
      for (const { event } of events) {
        if (event.case === "toolCallStarted") {
          console.log("calls", event.value.tool?.routedName);
        } else if (event.case === "textDelta") {
          stdout.write(event.value.text);
        } else if (event.case === "runWaiting") {
          console.log("waits for you: see turnwire approvals list");
        } else if (event.case === "runFinished") {
          console.log();
        }
      }
    },
  },
);
if (outcome !== undefined) {
  console.log(OutcomeKindSchema.value[outcome.kind]?.name, outcome.failure?.message ?? "");
}
exit();
