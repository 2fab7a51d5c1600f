package dev.turnwire.examples;

import dev.turnwire.FollowOptions;
import dev.turnwire.RunView;
import dev.turnwire.TurnwireClient;
import dev.turnwire.Update;
import dev.turnwire.Updates;
import dev.turnwire.v1.Outcome;
import dev.turnwire.v1.RunEvent;
import dev.turnwire.v1.ToolCallArgumentsFinished;
import dev.turnwire.v1.ToolCallStarted;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * Asks an agent. Prints the answer as it comes, the calls of tools, and how the run ended. {@code TURNWIRE_TOKEN} is the
 * caller's token, where the server wants one. Ctrl-C ends the program and with it the run.
 */
public final class Ask {
  private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

  private final RunView view = new RunView();
  private final Map<String, String> names = new HashMap<>();

  private Ask() {}

  /**
   * The program.
   *
   * @param arguments an address and a question
   */
  public static void main(String[] arguments) {
    if (arguments.length != 2) {
      System.err.println("usage: Ask ADDRESS QUESTION");
      System.exit(2);
    }
    try (TurnwireClient client = TurnwireClient.builder(arguments[0]).token(System.getenv("TURNWIRE_TOKEN")).build();
        Updates updates = client.follow(TurnwireClient.prompt(arguments[1]), FollowOptions.DEFAULT)) {
      Ask ask = new Ask();
      updates.forEachRemaining(ask::show);
      OUT.println("\n" + ask.view.outcome().map(Outcome::getKind).orElseThrow());
    }
  }

  private void show(Update update) {
    for (RunEvent event : update.events()) {
      switch (event.getEventCase()) {
        case TEXT_DELTA -> OUT.print(event.getTextDelta().getText());
        case TOOL_CALL_STARTED -> {
          ToolCallStarted call = event.getToolCallStarted();
          names.put(call.getCallId(), call.hasTool() ? call.getTool().getRoutedName() : call.getRequestedName());
        }
        case TOOL_CALL_ARGUMENTS_FINISHED -> {
          ToolCallArgumentsFinished call = event.getToolCallArgumentsFinished();
          OUT.println("[" + names.get(call.getCallId()) + " " + call.getArgumentsJson() + "]");
        }
        default -> {}
      }
    }
    OUT.flush();
    view.apply(update);
  }
}
