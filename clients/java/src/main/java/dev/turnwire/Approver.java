package dev.turnwire;

import dev.turnwire.v1.Approval;

/** Decides about calls that need somebody's word. */
@FunctionalInterface
public interface Approver {
  /**
   * Called once for each approval on a thread of the client. The thread is interrupted when the run is left. What it
   * throws ends the run, and is thrown to who called {@link TurnwireClient#run}.
   *
   * @param approval what is asked, with the call that it is about
   * @return never null
   */
  Decision decide(Approval approval);
}
