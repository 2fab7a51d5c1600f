package dev.turnwire;

/** A tool that the caller executes, which the turn must declare as one of its client tools. */
@FunctionalInterface
public interface ToolFunction {
  /**
   * Called on a thread of the client, beside other functions. The thread is interrupted when the run is left.
   *
   * @param arguments of the model
   * @return a string is text for the model; anything else is written as JSON by Gson, and null is {@code null}
   * @throws Exception whose message is told to the model as the tool's error
   */
  Object call(Arguments arguments) throws Exception;
}
